"""The formulas beside what a real Flink has measured in the jobs of ``tests/data/flink-reference``."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import msgspec

from integration import load_scenario
from netstack import GeneratorSpec

from .formulas import LEAST, SEGMENT, delay_ms, waiting_bytes
from .measure import KIB, table

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "flink-reference"

JOBS = {
    "2x2_2KBs_100B_on1s_minimum": "the floor",
    "2x2_1MBs_100KB_off": "records of 100 KB",
    "2x2_1MBs_off": "whole segments",
    "2x2_200KBs_off": "whole segments",
    "4x4_1MBs_off": "whole segments",
    "8x8_500KBs_off": "whole segments",
    "2x2_1MBs_bpc0_off": "0/8 buffers",
    "2x2_200KBs_unaligned": "unaligned",
    "2x2_200KBs_timeout500ms": "unaligned after 500 ms",
}


def flink(_pool: Executor) -> str:
    """Each job's formula, and what Flink showed in its repetitions."""
    rows = []
    for name, about in JOBS.items():
        scenario = load_scenario(FOLDER / f"{name}.toml")
        first, last = scenario.vertices[0], scenario.vertices[-1]
        assert isinstance(first.source, GeneratorSpec)
        record, config = first.source.record_bytes, scenario.config
        buffers = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
        measured = _steady(name)
        rate = _median_rate(measured[0], last.name)
        wanted = LEAST if config.debloat_enabled else SEGMENT
        waiting = delay_ms(last.parallelism, record, rate, wanted, *buffers)
        overtakes = config.unaligned_enabled
        stored = last.parallelism * waiting_bytes(last.parallelism, record, wanted, *buffers)
        times = sorted(each["end_to_end_ms"] for each in measured)
        rows.append(
            [
                f"`{name}`",
                about,
                "" if overtakes else f"**{waiting:,.0f}**",
                _range(times),
                f"**{stored / KIB:,.0f}**" if overtakes else "",
                _range(sorted(each["persisted_bytes"] / KIB for each in measured)) if overtakes else "",
            ]
        )
    head = (
        "job",
        "what it shows",
        "formula, ms",
        "Flink, end to end, ms",
        "formula, KiB",
        "Flink stored, KiB",
    )
    return table(head, rows)


def _steady(name: str) -> list[dict[str, Any]]:
    """The last window of each repetition."""
    document = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    return [document["steady"][-1], *(each["steady"][-1] for each in document.get("repetitions", []))]


def _median_rate(steady: dict[str, Any], vertex: str) -> float:
    rates = next(each["bytes_in_per_s"] for each in steady["vertices"] if each["name"] == vertex)
    return float(sorted(rates)[len(rates) // 2])


def _range(values: list[float]) -> str:
    low, high = f"{values[0]:,.0f}", f"{values[-1]:,.0f}"
    return low if low == high else f"{low} to {high}"
