"""The pictures of docs/CONCEPTS.md, made of what the emulator finds and of its own credit ledgers.

``python docs/examples/concept_pictures.py DIR`` writes them to DIR; those in the repository are made by
``python docs/examples/concept_pictures.py docs/images``. Below each picture stands what it was made of.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import altair as alt
from credit_channel import CREDIT, DATA, Channel, Message

from netstack import Edge, GeneratorSpec, NetworkConfig, Result, Scenario, Vertex, emulate

Rows = list[dict[str, Any]]

BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#808080"
END_MS = 80.0
"""Seconds of the channel that are shown."""

LEVELS = ("credit of the sender", "data with the reader")

COMMAND = "python docs/examples/concept_pictures.py docs/images"


def one_by_one() -> Scenario:
    """A source of 200 records a second and a consumer that is slow from 10 s to 40 s."""
    return Scenario(
        name="one source, one consumer",
        duration_s=60.0,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=1013, rates=(200.0,))),
            Vertex(name="consumer", service=((0.0, 1e-3), (10.0, 1e-2), (40.0, 1e-3))),
        ),
        edges=(Edge(source="source", target="consumer"),),
    )


def fast_and_slow(config: NetworkConfig) -> Scenario:
    """A source that fills all its buffers and one that hardly uses them, read by two slow subtasks."""
    return Scenario(
        name="a fast and a slow source",
        duration_s=30.0,
        warmup_s=10.0,
        config=replace(config, checkpoint_interval_s=5.0),
        vertices=(
            Vertex(name="fast", source=GeneratorSpec(record_bytes=1013)),
            Vertex(name="slow", source=GeneratorSpec(record_bytes=1013, rates=(10.0,))),
            Vertex(name="sum", parallelism=2, service=((0.0, 2e-3),)),
        ),
        edges=(Edge(source="fast", target="sum"), Edge(source="slow", target="sum")),
    )


def changing_load(config: NetworkConfig) -> Scenario:
    """Two sources as fast as they may be; a record costs five times as much from 30 s to 60 s."""
    return Scenario(
        name="a load that changes",
        duration_s=90.0,
        config=replace(config, checkpoint_interval_s=5.0),
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013)),
            Vertex(name="consumer", parallelism=2, service=((0.0, 1e-3), (30.0, 5e-3), (60.0, 1e-3))),
        ),
        edges=(Edge(source="source", target="consumer"),),
    )


def back_pressure() -> alt.Chart:
    """Draw how a slow consumer fills its own buffers, and then the source's, until the source waits."""
    result = emulate(one_by_one())
    source, consumer = result.series
    queued: Rows = []
    rates: Rows = []
    for at, t in enumerate(source.t):
        queued.append({"t": t, "who": "consumer", "place": 0, "buffers": consumer.inputQueueLength[0][at]})
        queued.append({"t": t, "who": "source", "place": 1, "buffers": source.outputQueueLength[0][at]})
        if at:
            seconds = t - source.t[at - 1]
            for who, counts in (("source", source.numRecordsOut[0]), ("consumer", consumer.numRecordsIn[0])):
                rates.append({"t": t, "who": who, "rate": (counts[at] - counts[at - 1]) / seconds})
    areas = _chart(queued, 170).mark_area(interpolate="step-after", opacity=0.85)
    lines = _chart(rates, 130).mark_line(strokeWidth=2)
    colour = _colour("who", (BLUE, ORANGE), ("consumer", "source"))  # as reports have receivers and senders
    title = "A slow consumer: its buffers fill, then those of the source, and then the source waits"
    return alt.vconcat(
        areas.encode(_time(), _y("buffers", "buffers that wait"), colour, alt.Order("place:Q")),
        lines.encode(_time(), _y("rate", "rate (records/s)"), colour),
    ).properties(title=_title(title, result))


def credit() -> alt.Chart:
    """Draw the messages of a channel's two ends: data with the backlog behind it, and credit."""
    channel = Channel()
    channel.run(END_MS)
    sent = [row for message in channel.messages if (row := _arrow(message))["until"] <= END_MS]
    kind = _colour("kind", (BLUE, ORANGE), (DATA, CREDIT))
    time = alt.X("t:Q", title="time (ms)", scale=alt.Scale(domain=[0, END_MS]))
    ends = alt.Axis(values=[0, 1], labelExpr="datum.value == 1 ? 'sender' : 'reader'", grid=True)
    place = alt.Y("from:Q", title=None, axis=ends, scale=alt.Scale(domain=[-0.15, 1.15], nice=False))
    lines = _chart(sent, 220).mark_rule(strokeWidth=1.5)
    heads = _chart(sent, 220).mark_point(filled=True, size=30, opacity=1)
    messages = alt.layer(
        lines.encode(time, alt.X2("until:Q"), place, alt.Y2("to:Q"), kind),
        heads.encode(alt.X("until:Q"), alt.Y("to:Q"), kind),
        _said([row for row in sent if row["kind"] == CREDIT], 10, ORANGE),
        _said([row for row in sent if row["kind"] == DATA], -9, BLUE),
    )
    rows = [
        {"t": t, "what": what, "buffers": count}
        for t, counts in channel.levels.items()
        for what, count in zip(LEVELS, counts, strict=True)
    ]
    levels = _chart(rows, 130).mark_line(interpolate="step-after", strokeWidth=2)
    level = _colour("what", (ORANGE, BLUE), LEVELS)
    made = f"2 exclusive and 4 floating buffers, 8 ms each way, 9 ms to read one. {_made_by()}"
    return (
        alt.vconcat(messages, levels.encode(time, _y("buffers", "buffers"), level))
        .resolve_scale(color="independent")
        .properties(
            title=_heading("One channel: what is sent has a free buffer waiting at the other end", made)
        )
    )


def _arrow(message: Message) -> dict[str, Any]:
    """A message as a line from one end to the other."""
    start, end = (1, 0) if message.kind == DATA else (0, 1)
    row = {"kind": message.kind, "t": message.sent_ms, "until": message.arrives_ms, "from": start, "to": end}
    text = f"+{message.count}" if message.kind == CREDIT else f"{message.count} wait"
    return row | {"text": text if message.last else ""}


def _said(rows: Rows, dy: int, colour: str) -> alt.Chart:
    """Draw the labels of arrows at their beginnings."""
    text = _chart(rows, 220).mark_text(fontSize=11, dy=dy, color=colour, fontWeight="bold")
    return text.encode(alt.X("t:Q"), alt.Y("from:Q"), alt.Text("text:N"))


MODES = {
    "aligned": NetworkConfig(),
    "aligned, debloating to 300 ms": NetworkConfig(debloat_enabled=True, debloat_target_s=0.3),
    "unaligned": NetworkConfig(unaligned_enabled=True),
}
PHASES = {"start delay": "#56b4e9", "alignment": "#d55e00", "snapshot and acknowledgement": "#009e73"}
"""Parts of a checkpoint, in the colours that reports have for them."""


def alignment() -> alt.Chart:
    """One checkpoint in three modes: when the barriers reach each subtask, first and last."""
    rows: Rows = []
    for mode, config in MODES.items():
        result = emulate(fast_and_slow(config))
        checkpoint = result.checkpoints[-2]
        for vertex in checkpoint.vertices:
            for subtask, total in enumerate(vertex.end_to_end_ms):
                first = vertex.start_delay_ms[subtask] or 0.0
                last = first + (vertex.alignment_ms[subtask] or 0.0)
                name = vertex.name if len(vertex.end_to_end_ms) == 1 else f"{vertex.name}[{subtask}]"
                bounds = ((0.0, first), (first, last), (last, max(last, total or 0.0)))
                for phase, (start, end) in zip(PHASES, bounds, strict=True):
                    rows.append({"mode": mode, "who": name, "phase": phase, "t": start, "until": end})
    bars = (
        alt.Chart()
        .mark_bar(height=14)
        .encode(
            alt.X("t:Q", title="time since the trigger (ms)"),
            alt.X2("until:Q"),
            alt.Y("who:N", title=None, sort=["fast", "slow", "sum[0]", "sum[1]"]),
            _colour("phase", tuple(PHASES.values()), tuple(PHASES)),
        )
        .properties(width=640, height=90)
    )
    header = alt.Header(labelAnchor="start", labelOrient="top", labelFontWeight="bold")
    title = "The barrier of the slow source comes at once, that of the fast one behind all its data"
    return bars.facet(
        row=alt.Row("mode:N", sort=list(MODES), title=None, header=header), data={"values": rows}, spacing=8
    ).properties(title=_title(title, result))


def debloating() -> alt.Chart:
    """Buffer sizes, how long data in flight lasts, and checkpoints, without debloating and with it."""
    runs = {
        "off": emulate(changing_load(NetworkConfig())),
        "target 1 s": emulate(changing_load(NetworkConfig(debloat_enabled=True))),
    }
    panels = [
        _panel(_sizes(runs), "KiB", "size of new buffers (KiB)", "step-after"),
        _panel(_lasting(runs), "s", "data in flight lasts (s)", "linear"),
        _panel(_durations(runs), "s", "checkpoint, end to end (s)", "linear", point=True),
    ]
    title = "Records cost five times as much from 30 s to 60 s: smaller buffers keep the wait near the target"
    return alt.vconcat(*panels).properties(title=_title(title, runs["off"]))


def _sizes(runs: dict[str, Result]) -> Rows:
    """Buffer size of the subtask with the smallest ones."""
    rows = []
    for run, result in runs.items():
        series = result.series[1]
        sizes: Any = series.debloatedBufferSize
        for at, t in enumerate(series.t):
            smallest = 32768.0 if run == "off" else min(subtask[at] for subtask in sizes)
            rows.append({"run": run, "t": t, "KiB": smallest / 1024})
    return rows


def _lasting(runs: dict[str, Result]) -> Rows:
    """Queued bytes over the bytes read in the second around."""
    rows = []
    for run, result in runs.items():
        source, consumer = result.series
        for at in range(1, len(source.t)):
            queued = sum(subtask[at] for subtask in (*source.outputQueueSize, *consumer.inputQueueSize))
            read = sum(subtask[at] - subtask[at - 1] for subtask in consumer.numRecordsIn) * 1017
            if read:
                rows.append({"run": run, "t": source.t[at], "s": queued / read})
    return rows


def _durations(runs: dict[str, Result]) -> Rows:
    return [
        {"run": run, "t": checkpoint.t, "s": checkpoint.duration_ms / 1000}
        for run, result in runs.items()
        for checkpoint in result.checkpoints
        if checkpoint.duration_ms is not None
    ]


def _panel(rows: Rows, unit: str, title: str, interpolate: Any, *, point: bool = False) -> alt.Chart:
    lines = _chart(rows, 120).mark_line(interpolate=interpolate, strokeWidth=2, point=point)
    colour = _colour("run", (GREY, BLUE), ("off", "target 1 s"))
    return lines.encode(_time(), _y(unit, title), colour)


def _chart(rows: Rows, height: int) -> alt.Chart:
    return alt.Chart(alt.Data(values=rows)).properties(width=720, height=height)


def _time() -> alt.X:
    return alt.X("t:Q", title="time (s)", axis=alt.Axis(grid=False))


def _y(field: str, title: str) -> alt.Y:
    return alt.Y(f"{field}:Q", title=title)


def _colour(field: str, palette: tuple[str, ...], names: tuple[str, ...]) -> alt.Color:
    scale = alt.Scale(domain=list(names), range=list(palette))
    return alt.Color(f"{field}:N", scale=scale, legend=alt.Legend(title=None, orient="top"))


def _title(text: str, result: Result) -> alt.TitleParams:
    made = f"Scenario “{result.scenario.name}”, {result.preset}, seed {result.seed}, {result.clock} clock."
    return _heading(text, f"{made} {_made_by()}")


def _heading(text: str, made: str) -> alt.TitleParams:
    return alt.TitleParams(text, subtitle=made, anchor="start", fontSize=15, subtitleFontSize=11, offset=10)


def _made_by() -> str:
    try:
        return f"netstack {version('netstack')}, {COMMAND}"
    except PackageNotFoundError:
        return f"netstack, {COMMAND}"


PICTURES = {
    "back-pressure": back_pressure,
    "credit": credit,
    "alignment": alignment,
    "debloating": debloating,
}


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        path = folder / f"{name}.png"
        chart = picture().configure_view(stroke="#ccc")
        chart = chart.configure_axis(gridColor="#e6e6e6", titleFontWeight="normal")
        chart.properties(padding=14, background="white").save(str(path), scale_factor=2)
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
