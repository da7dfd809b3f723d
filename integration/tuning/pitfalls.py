"""The documented ways in which debloating fails, recognised in the points of a sweep.

Each has a scenario in ``docs/examples/pitfalls/`` that shows it. What a rule says is read off the emulation
of the very job, so it comes with figures; `pitfall_rules` has the rules. Most are named by Flink's page on
network memory tuning ("Limitations"), the others by its users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from netstack import Result, from_json

from ..analysis.known_values import known
from .axes import TARGET
from .pitfall_rules import RULES, DebloatedRun, Symptom
from .point_rows import PointRow

EXAMPLES = "docs/examples/pitfalls"
"""Where in the repository the scenarios are that show pitfalls."""

WHATS = {
    "slow-input": "a slow input holds up the others of its vertex",
    "large-records": "records are larger than the debloated buffers",
    "minimum-size": "buffers are as small as they may be, and still too many",
    "high-parallelism": "a gate has more channels than debloating can serve",
    "window-bursts": "a burst blocks the task, and no barrier is handled meanwhile",
    "moving-load": "the load moves faster than debloating follows",
    "skewed-consumers": "some consumers are slower than the others",
}
"""Each pitfall in a few words, by its name."""

REMEDIES = {
    "slow-input": "Speed up the slow input or give it more parallelism, or join it elsewhere; unaligned "
    "checkpoints do not wait for its barriers.",
    "large-records": "Take a longer target, or make records smaller; unaligned checkpoints overtake all but "
    "the one in progress.",
    "minimum-size": "Take a longer target, this one changes nothing; fewer channels or, with Flink 1.x, "
    "fewer buffers hold less; unaligned checkpoints overtake what they hold.",
    "high-parallelism": "Connect fewer subtasks (rescale in place of rebalance), or use unaligned "
    "checkpoints; with Flink 1.x, as many floating buffers as channels help.",
    "window-bursts": "Spread the firing of windows (offsets, smaller windows), or use more parallelism; "
    "neither a target nor unaligned checkpoints pass a record in progress.",
    "moving-load": "Lower buffer-debloat.period or .samples, which makes sizes noisier, or use unaligned "
    "checkpoints with a timeout.",
    "skewed-consumers": "Spread the load (other keys, more parallelism); the slowest consumer decides, "
    "whatever the target.",
}
"""What to do instead, by name."""


class Pitfall(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which debloating fails for this job."""

    name: str
    """One of `WHATS`."""
    vertex: str
    """Where it shows."""
    what: str
    evidence: str
    """A sentence with figures, of the point where it is worst."""
    settings: list[str]
    """All settings of the sweep that show it, as their rows are labelled."""
    point: str
    """The one that the evidence is of."""
    seed: int
    remedy: str
    shown_by: str
    """A scenario of this repository that shows it."""


def find_pitfalls(rows: Sequence[PointRow]) -> list[Pitfall]:
    """Return the pitfalls that the points of a sweep show, each once for a vertex.

    Points with debloating are looked at; those that failed, that probe something else or that have no result
    are not.
    """
    varying = _varying_axes(rows)
    return pitfalls_of(known(_run_of(row, varying) for row in rows if row.probe == "main"))


def pitfalls_of(runs: Iterable[DebloatedRun]) -> list[Pitfall]:
    """Return the pitfalls that runs show, in the order of `WHATS`, each once for a vertex."""
    shown: dict[tuple[str, str], list[tuple[Symptom, DebloatedRun]]] = {}
    for run in runs:
        for name, rule in RULES.items():
            for symptom in rule(run):
                shown.setdefault((name, symptom.vertex), []).append((symptom, run))
    order = list(WHATS)
    return [
        _pitfall(name, shown[name, vertex]) for name, vertex in sorted(shown, key=lambda x: order.index(x[0]))
    ]


def debloated_run(result: Result, *, label: str = "") -> DebloatedRun:
    """Return a result as the rules want it."""
    return DebloatedRun(label, result.scenario, result)


def _varying_axes(rows: Iterable[PointRow]) -> list[str]:
    """Return the target and the axes that have several values, which tell the points of a sweep apart."""
    values: dict[str, set[str]] = {TARGET: set()}
    for row in rows:
        for name, value in row.labels.items():
            values.setdefault(name, set()).add(value)
    return [name for name, texts in values.items() if name == TARGET or len(texts) > 1]


def _label_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Return some labels of a point in one text, such as "target 50 ms, samples 5"."""
    return ", ".join(f"{name.rpartition('.')[2]} {labels[name]}" for name in names if name in labels)


def _run_of(row: PointRow, names: Sequence[str]) -> DebloatedRun | None:
    """The run of a point; None if it failed, measured no window, or was without debloating."""
    if row.result is None or row.status != "finished":
        return None
    run = debloated_run(from_json(row.result), label=_label_of(row.labels, names))
    return run if run.result.steady and run.scenario.config.debloat_enabled else None


def _pitfall(name: str, shown: Sequence[tuple[Symptom, DebloatedRun]]) -> Pitfall:
    worst, run = max(shown, key=lambda pair: pair[0].severity)
    return Pitfall(
        name=name,
        vertex=worst.vertex,
        what=WHATS[name],
        evidence=worst.evidence,
        settings=list(dict.fromkeys(each.label for _, each in shown)),
        point=run.label,
        seed=run.result.seed,
        remedy=REMEDIES[name],
        shown_by=f"{EXAMPLES}/{name.replace('-', '_')}.toml",
    )
