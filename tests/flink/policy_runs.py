"""All policies on all scenarios: predicted by the emulator first, then measured in a real Flink, run by run.

Predictions are written to a file that is kept with the sources, so that they stand before the measurement.
Measurements are kept beside them, a row for each window of a run; what is there already is not run again, so
that the command goes on where it was stopped. All that was observed of a run is a file in the folder for
results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from integration import write_whole
from integration.runs.quantities import ALLOWED_SHARE, LEAST_MS
from integration.runs.seeds import run_seeds
from netstack import Result, Scenario, ScenarioError

from .cluster import TestbedError, prepare
from .job_description import POLICIES, described
from .measuring import measure, outcome, say
from .references import scenario_named

KNOWN = (
    "2x2_200KBs_on1s",
    "2x2_1MBs_on100ms",
    "2x2_1MBs_100B_on100ms",
    "2x2_1MBs_bpc8_on100ms",
    "2x2_step_on200ms",
    "4x4_1MBs_hash_on100ms",
    "2x2_unsaturated_on100ms",
)
"""Scenarios of the references, which the emulator was held against under Flink's own policy."""

NEW = (
    "lower_target_on500ms",
    "skewed_sources_on1s",
    "hot_source_on200ms",
    "eight_by_eight_on500ms",
    "two_inputs_by_key_on500ms",
    "shared_slots_on500ms",
    "flat_map_on300ms",
    "bursts_on200ms",
    "rare_checkpoints_on1s",
    "timeout_on500ms",
)
"""Scenarios of `tests/flink/scenarios`, which it was not."""

PREDICTIONS = Path(__file__).parent / "predictions.json"
MEASUREMENTS = Path(__file__).parent / "measurements.json"

RELEASE = "2.2.1"
"""The release of Flink of all runs, so that they can be compared."""

REPETITIONS = 3
SEEDS = 3
MOST_FAILURES = 3
"""In a row: then it is the machine, and not a run that had bad luck."""


class PolicyFigures(msgspec.Struct, frozen=True):
    """One window under one policy: medians over runs, and the least and the greatest of them."""

    end_to_end_ms: tuple[float, float, float]
    worst_ms: float
    """The longest checkpoint of all runs."""
    records_per_s: float
    """Into the vertices that nobody reads from."""


class Key(NamedTuple):
    """What figures are of."""

    scenario: str
    window: str
    policy: str


Table = Mapping[Key, PolicyFigures]


class Run(NamedTuple):
    """One run of Flink."""

    scenario: str
    policy: str
    repetition: int
    release: str = RELEASE
    """Release of Flink."""


class Measured(msgspec.Struct, frozen=True):
    """One window of a run of Flink."""

    of: Run
    window: str
    end_to_end_ms: float | None
    """Median over checkpoints; None: none was completed in time."""
    worst_ms: float | None
    records_per_s: float
    other_cores_used: float
    """By other processes meanwhile."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("--predict", action="store_true", help=f"emulate, and write {PREDICTIONS.name} anew")
    parser.add_argument("--only", nargs="+", default=[*KNOWN, *NEW], metavar="NAME", help="scenarios")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES, metavar="POLICY")
    parser.add_argument(
        "--repetitions", type=int, default=REPETITIONS, help="of each (%(default)s); 0: only show"
    )
    parser.add_argument(
        "--measurements",
        type=Path,
        default=MEASUREMENTS,
        metavar="FILE",
        help="where runs are kept (%(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run all policies on all scenarios in Flink 2.2.1, and show them beside what was predicted."""
    if unknown := set(options.only) - {*KNOWN, *NEW}:
        raise ScenarioError([f"--only: no such scenario: {', '.join(sorted(unknown))}"])
    if options.predict:
        for name in options.only:
            say(f"emulating {name}")
            _write_predictions({**_predictions(), **predicted(name, options.policies)})
    else:
        _measure(options)
    print(tables(_predictions(), table_of(measurements(options.measurements))))
    return 0


def predicted(name: str, policies: Sequence[str]) -> Table:
    """Emulate a scenario under each policy, with several seeds."""
    scenarios = [scenario_named(name, policy, RELEASE) for policy in policies]
    table: dict[Key, PolicyFigures] = {}
    for scenario, results in zip(scenarios, run_seeds(scenarios, SEEDS), strict=True):
        rows = [
            row for seed, result in enumerate(results) for row in _rows(scenario, seed, _as_document(result))
        ]
        table |= table_of(rows)
    return table


def _as_document(result: Result) -> Mapping[str, Any]:
    return {"steady": msgspec.to_builtins(result.steady), "other_cores_used": 0.0}


def measurements(file: Path) -> list[Measured]:
    """Read the runs that are there."""
    return msgspec.json.decode(file.read_bytes(), type=list[Measured]) if file.exists() else []


def table_of(rows: Iterable[Measured]) -> Table:
    """Return the figures of each window and policy, over the runs that completed a checkpoint in it."""
    runs: dict[Key, list[Measured]] = {}
    for row in rows:
        if row.end_to_end_ms is not None:
            runs.setdefault(Key(row.of.scenario, row.window, row.of.policy), []).append(row)
    return {key: _figures(of_key) for key, of_key in runs.items()}


def _figures(rows: Sequence[Measured]) -> PolicyFigures:
    times = [row.end_to_end_ms for row in rows if row.end_to_end_ms is not None]
    worst = max(row.worst_ms or 0.0 for row in rows)
    rate = round(median(row.records_per_s for row in rows), 1)
    return PolicyFigures((median(times), min(times), max(times)), worst, rate)


def _rows(scenario: Scenario, repetition: int, document: Mapping[str, Any]) -> list[Measured]:
    sources_first = sorted(scenario.vertices, key=lambda vertex: vertex.source is None)
    last = [place for place, vertex in enumerate(sources_first) if not scenario.outputs(vertex)]
    rows = []
    for (begin, end), block in zip(scenario.windows, document["steady"], strict=True):
        rates = [rate or 0.0 for place in last for rate in block["vertices"][place]["records_in_per_s"]]
        rows.append(
            Measured(
                Run(scenario.name, scenario.config.debloat_policy, repetition),
                f"{begin:g}-{end:g} s",
                block["end_to_end_ms"],
                block["end_to_end_ms_max"],
                round(sum(rates), 1),
                document["other_cores_used"],
            )
        )
    return rows


def _measure(options: argparse.Namespace) -> None:
    wanted = [
        (number, scenario_named(name, policy, RELEASE))
        for number in range(1, options.repetitions + 1)
        for name in options.only
        for policy in options.policies
    ]
    for _, scenario in wanted:
        described(scenario)
    known = {row.of for row in measurements(options.measurements)}
    left = [
        (number, scenario)
        for number, scenario in wanted
        if Run(scenario.name, scenario.config.debloat_policy, number) not in known
    ]
    if not left:
        return
    software = prepare(RELEASE)
    in_a_row = 0
    for done, (number, scenario) in enumerate(left):
        policy = scenario.config.debloat_policy
        say(f"{done + 1} of {len(left)}: {scenario.name}, {policy}, repetition {number}")
        try:
            _, document = measure(scenario, software, options.port)
        except TestbedError as error:
            in_a_row += 1
            if in_a_row == MOST_FAILURES:
                raise
            say(f"  is left out, to be tried again by the same command: {error}")
            continue
        in_a_row = 0
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / f"{scenario.name}.{policy}.{number}.json"
        write_whole({file: json.dumps(document, separators=(",", ":")).encode()})
        keep(_rows(scenario, number, document), options.measurements)
        say(f"  {outcome(document)}; others took {document['other_cores_used']} cores")


def keep(rows: Sequence[Measured], file: Path) -> None:
    """Add runs to those that a file has, in the order of scenarios, policies and repetitions."""
    names, policies = (*KNOWN, *NEW), list(POLICIES)
    kept = sorted(
        [*measurements(file), *rows],
        key=lambda row: (names.index(row.of.scenario), policies.index(row.of.policy), row.of.repetition),
    )
    lines = [msgspec.json.encode(row) for row in kept]
    write_whole({file: b"[\n" + b",\n".join(lines) + b"\n]\n"})


def _predictions() -> dict[Key, PolicyFigures]:
    if not PREDICTIONS.exists():
        return {}
    rows = json.loads(PREDICTIONS.read_text("utf-8"))
    return {Key(*row.pop("of")): msgspec.convert(row, PolicyFigures) for row in rows}


def _write_predictions(table: Table) -> None:
    names = (*KNOWN, *NEW)
    order = sorted(table, key=lambda key: (names.index(key.scenario), key.window, POLICIES.index(key.policy)))
    rows = [json.dumps({"of": list(key), **msgspec.to_builtins(table[key])}) for key in order]
    write_whole({PREDICTIONS: ("[\n" + ",\n".join(rows) + "\n]\n").encode()})


def tables(predictions: Table, measurements: Table) -> str:
    """Return tables of end-to-end times and of throughput, predicted and measured, and how many were met."""
    rows = list(dict.fromkeys((key.scenario, key.window) for key in predictions))
    lines = ["End to end in ms, predicted / measured, or predicted only:", "", *_head()]
    met = []
    for scenario, window in rows:
        cells = []
        for policy in POLICIES:
            key = Key(scenario, window, policy)
            ours, flinks = predictions.get(key), measurements.get(key)
            cells.append(_times(ours, flinks))
            if ours and flinks:
                met.append(_met(ours.end_to_end_ms[0], flinks.end_to_end_ms[0]))
        lines.append(f"| {_named(scenario, window, rows)} | {' | '.join(cells)} |")
    lines += ["", "Records per second into the last vertices, predicted / measured:", "", *_head()]
    for scenario, window in rows:
        pairs = [(predictions.get(key), measurements.get(key)) for key in _keys(scenario, window)]
        rates = [" / ".join(f"{each.records_per_s:.0f}" for each in pair if each) for pair in pairs]
        lines.append(f"| {_named(scenario, window, rows)} | {' | '.join(rates)} |")
    if met:
        lines += [
            "",
            f"Predicted within {ALLOWED_SHARE:.0%} or {LEAST_MS:.0f} ms: {sum(met)} of {len(met)} times.",
        ]
    return "\n".join(lines) + "\n"


def _met(ours_ms: float, flinks_ms: float) -> bool:
    return abs(ours_ms - flinks_ms) <= max(ALLOWED_SHARE * flinks_ms, LEAST_MS)


def _head() -> list[str]:
    return [f"| scenario | {' | '.join(POLICIES)} |", "|---|" + "---:|" * len(POLICIES)]


def _keys(scenario: str, window: str) -> list[Key]:
    return [Key(scenario, window, policy) for policy in POLICIES]


def _named(scenario: str, window: str, rows: Sequence[tuple[str, str]]) -> str:
    several = sum(name == scenario for name, _ in rows) > 1
    return f"{scenario}, {window}" if several else scenario


def _times(ours: PolicyFigures | None, flinks: PolicyFigures | None) -> str:
    triples = [figures.end_to_end_ms for figures in (ours, flinks) if figures]
    return " / ".join(f"{middle:.0f} ({least:.0f}-{most:.0f})" for middle, least, most in triples)
