"""WindowFigures in words: numbers as people read them, and what happened in one sentence.

Nothing here knows what the numbers ought to be: a run that debloating made worse is described as that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .known_values import quotient
from .window_figures import WindowFigures

NOTHING = "-"
"""Stands for a number that is not there."""

SAME_TIME = 1.05
"""Two times of a smaller quotient than this are called the same."""

SAME_THROUGHPUT = 0.01
"""Two throughputs that differ by less than this share are called the same."""

_MICRO = re.compile(r"\bus\b")

_LAST = "at the subtask that acknowledged last the first barrier"

SEEN = 0.02
"""Share of a duration from which a part of it is worth words."""

_SIZES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


def with_micro_sign(text: str) -> str:
    """Return a text with "µs" in place of "us", which is for files and for what people type."""
    return _MICRO.sub("µs", text)


def milliseconds(value: float | None) -> str:
    """Return a time given in milliseconds as "47 ms" or, from a second on, "3.52 s"."""
    if value is None:
        return NOTHING
    return f"{value:.0f} ms" if value < 999.5 else f"{digits(value / 1000)} s"


def size(value: float | None) -> str:
    """Return a number of bytes with its binary unit, as "7.42 KiB"; 1 KiB is 1024 bytes, Flink's "1 kb"."""
    if value is None:
        return NOTHING
    unit = size_unit(value)
    return f"{size_in(unit, value)} {unit}"


def size_unit(value: float) -> str:
    """Return the binary unit in which a number of bytes is written, as "KiB"."""
    return next((unit for unit, scale in _SIZES.items() if value >= scale), "B")


def size_in(unit: str, value: float) -> str:
    """Return a number of bytes in a unit whose name stands beside it, or above it, as "7.42"."""
    return f"{value:.0f}" if unit == "B" else digits(value / _SIZES[unit])


def bytes_per_second(value: float | None) -> str:
    """Return a rate of bytes with its binary unit, as "198 KiB/s"."""
    return NOTHING if value is None else f"{size(value)}/s"


def per_second(value: float | None) -> str:
    """Return a rate of records as "2,510/s"."""
    return NOTHING if value is None else f"{digits(value)}/s"


def ratio(value: float | None) -> str:
    """Return a quotient as "0.23"."""
    return NOTHING if value is None else digits(value)


def percent(share: float) -> str:
    """Return a share from 0 to 1 as "43 %"."""
    return f"{100 * share:.0f} %"


def counted(count: int, what: str) -> str:
    """Return how many there are of what, as "1 subtask" or "3 subtasks"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of some `WindowFigures`: its name, what exactly it is, and how it is written."""

    name: str
    meaning: str
    value: Callable[[WindowFigures], float | None]
    text: Callable[[float | None], str]
    optional: bool = False
    """Whether a table leaves it out where all its values are 0 or unknown."""


QUANTITIES = (
    Quantity("Start delay", "to the first barrier", lambda f: f.start_delay_ms, milliseconds),
    Quantity("Alignment", "from there to the last one", lambda f: f.alignment_ms, milliseconds),
    Quantity("Snapshot", "sync and async after that", lambda f: f.snapshot_ms, milliseconds),
    Quantity("Acknowledgement", "from there to completion", lambda f: f.acknowledgement_ms, milliseconds),
    Quantity("End to end", "trigger to completion, the sum", lambda f: f.end_to_end_ms, milliseconds),
    Quantity("Bytes in flight", "queued at senders and receivers", lambda f: f.in_flight_bytes, size),
    Quantity("Stored", "of them, with a checkpoint", lambda f: f.persisted_bytes, size, optional=True),
    Quantity("Buffer size", "smallest of all consumers", lambda f: f.buffer_bytes, size),
    Quantity("Throughput", "records, all consumers", lambda f: f.records_per_s, per_second),
)
"""The rows of every table."""


def describe(run: WindowFigures) -> str:
    """Return what a run showed, in one sentence."""
    if run.end_to_end_ms is None:
        return f"No checkpoint was completed in {_length(run)}; throughput was {_rate(run)}."
    parts = [f"A checkpoint took {milliseconds(run.end_to_end_ms)}"]
    if run.start_delay_ms is not None and run.alignment_ms is not None:
        parts[0] += f": {_LAST} came after {milliseconds(run.start_delay_ms)}"
        late = run.alignment_ms >= 0.5
        parts.append(
            f"the last one {milliseconds(run.alignment_ms)} later" if late else "the last one with it"
        )
        parts += _after_barriers(run)
    if run.sender_share is not None:
        parts.append(f"with {size(run.in_flight_bytes)} in flight, {_place(run.sender_share)}")
    return f"{', '.join(parts)}; throughput was {_rate(run)}."


def compare(off: WindowFigures, on: WindowFigures) -> str:
    """Return what debloating changed between two runs of one job, in one sentence."""
    if off.end_to_end_ms is None or on.end_to_end_ms is None:
        return f"{_without_checkpoints(off, on)}; {_throughput_change(off, on)}."
    parts = [_checkpoint_change(off.end_to_end_ms, on.end_to_end_ms)]
    if None not in (off.start_delay_ms, on.start_delay_ms, off.alignment_ms, on.alignment_ms):
        delay = _change(off, on, lambda figures: milliseconds(figures.start_delay_ms))
        alignment = _change(off, on, lambda figures: milliseconds(figures.alignment_ms))
        parts[0] += f": {_LAST} came after {delay}"
        parts.append(f"the last one {alignment} later")
        parts += _after_barriers(off, on)
    if off.sender_share is not None and on.sender_share is not None:
        in_flight = _change(off, on, lambda figures: size(figures.in_flight_bytes))
        parts.append(f"with {in_flight} in flight, {_place(on.sender_share)}")
    return f"{', '.join(parts)}; {_throughput_change(off, on)}."


def _after_barriers(*runs: WindowFigures) -> list[str]:
    """What checkpoints took besides their barriers, where that can be seen beside the whole."""
    rests = [run.after_barriers_ms for run in runs]
    shares = [quotient(rest, run.end_to_end_ms) for rest, run in zip(rests, runs, strict=True)]
    if None in rests or all((share or 0.0) < SEEN for share in shares):
        return []
    took = milliseconds(rests[0])
    if len(runs) == 2:
        took = _change(*runs, lambda run: milliseconds(run.after_barriers_ms))
    return [f"its snapshot and acknowledgement took {took}"]


def _checkpoint_change(off_ms: float, on_ms: float) -> str:
    was, now = milliseconds(off_ms), milliseconds(on_ms)
    factor = max(off_ms, on_ms) / max(min(off_ms, on_ms), 1e-9)
    if factor < SAME_TIME:
        return f"Debloating changed next to nothing, a checkpoint took {now} with it and {was} without"
    if on_ms < off_ms:
        return f"With debloating a checkpoint took {now} instead of {was}, {digits(factor)} times as fast"
    return (
        f"Debloating did not help, a checkpoint took {now} instead of {was}, {digits(factor)} times as long"
    )


def _without_checkpoints(off: WindowFigures, on: WindowFigures) -> str:
    if off.end_to_end_ms is None and on.end_to_end_ms is None:
        return f"No checkpoint was completed in {_length(off)}, with debloating or without"
    if off.end_to_end_ms is None:
        done = milliseconds(on.end_to_end_ms)
        return f"Without debloating no checkpoint was completed in {_length(off)}, with it one took {done}"
    done = milliseconds(off.end_to_end_ms)
    return f"With debloating no checkpoint was completed in {_length(on)}, without it one took {done}"


def _throughput_change(off: WindowFigures, on: WindowFigures) -> str:
    change = quotient(on.records_per_s, off.records_per_s)
    if change is None:
        return "throughput cannot be compared"
    if abs(change - 1) < SAME_THROUGHPUT:
        return f"throughput stayed at {_rate(on)}"
    verb = "fell" if change < 1 else "rose"
    return f"throughput {verb} by {100 * abs(change - 1):.1f} % to {_rate(on)}"


def _change(off: WindowFigures, on: WindowFigures, text: Callable[[WindowFigures], str]) -> str:
    """Return "A instead of B", or "A as before" where both read the same."""
    return f"{text(on)} as before" if text(on) == text(off) else f"{text(on)} instead of {text(off)}"


def _place(sender_share: float) -> str:
    if sender_share >= 0.5:
        return f"{percent(sender_share)} of it waiting at the senders"
    return f"{percent(1 - sender_share)} of it waiting at the receivers"


def _rate(run: WindowFigures) -> str:
    return "unknown" if run.records_per_s is None else f"{digits(run.records_per_s)} records/s"


def _length(run: WindowFigures) -> str:
    return f"{digits(run.to_s - run.from_s)} s"


def digits(value: float) -> str:
    """Return a number with three digits, or with all of those before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
