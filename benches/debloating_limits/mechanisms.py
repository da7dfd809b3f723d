"""Section 5: what other mechanisms do where debloating is weak, and where it is not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Executor

from ..policy_scenarios import RECORD_BYTES, Case
from .bounds import bytes_per_s, saturated
from .formulas import SEGMENT, in_partition, in_use
from .limit_scenarios import LIMIT_CASES
from .measure import KIB, Asked, Figures, medians, run_all, table

EXCLUSIVE, FLOATING = (2, 1, 0), (8, 4, 2, 1)
LIMITS = (0, 1, 2, 3, 4, 6, 12)
TIMEOUTS_MS = (3000, 2000, 1000, 500, 100)

BASE = "aligned"
COMPARED = {
    "as it is": BASE,
    "debloating": "aligned, debloating",
    "1/1 buffers": "1/1 buffers",
    "0/1 buffers": "0/1 buffers",
    "0/1 buffers, debloating": "0/1 buffers, debloating",
    "credit by bytes": "credit by bytes",
    "the same, smallest partitions": "credit by bytes, smallest partitions",
    "credit by bytes, debloating": "credit by bytes, debloating",
    "overtakes 2": "overtakes 2",
    "overtakes 6": "overtakes 6",
    "overtakes 2, debloating": "overtakes 2, debloating",
    "unaligned": "unaligned",
    "unaligned, debloating": "unaligned, debloating",
}
"""What stands in the tables, and the mechanism."""


def buffer_numbers(pool: Executor) -> str:
    """Numbers of buffers, without debloating and with it; near and over links of 50 ms."""
    near = saturated(2, 1e6, RECORD_BYTES, 0.1, interval_s=2.0, measured_s=30.0)
    far = next(case.scenario for case in LIMIT_CASES if case.scenario.name == "far-100ms")
    cells = [(exclusive, floating) for exclusive in EXCLUSIVE for floating in FLOATING]
    names = [f"{e}/{f} buffers{suffix}" for e, f in cells for suffix in ("", ", debloating")]
    asked = [Asked(scenario, name) for scenario in (near, far) for name in names]
    found = list(run_all(pool, asked))
    rows = []
    for place, (exclusive, floating) in enumerate(cells):
        off, on = found[2 * place : 2 * place + 2]
        far_off, far_on = found[len(names) + 2 * place : len(names) + 2 * place + 2]
        best, far_best = found[0].records_per_s, found[len(names)].records_per_s
        count = in_use(2, exclusive, floating)
        rows.append(
            [
                f"{exclusive}/{floating}",
                f"{count:.0f}",
                f"**{count * SEGMENT / bytes_per_s(off, 2, RECORD_BYTES) * 1000:,.0f}**",
                f"{off.delay_ms:,.0f}",
                *_short(off, best),
                *_short(on, best),
                *_short(far_off, far_best),
                *_short(far_on, far_best),
            ]
        )
    head = ["buffers", "in use", "formula, ms", "record delay, ms"]
    for name in ("near", "near, debloating", "far", "far, debloating"):
        head += [f"{name}: end to end, ms", "throughput"]
    return table(head, rows)


def _short(one: Figures, best: float) -> tuple[str, str]:
    return f"{one.end_to_end_ms:,.0f}", f"{one.records_per_s / best:.1%}"


def overtaking(pool: Executor) -> str:
    """From aligned to unaligned by the buffers that a barrier may overtake, and by timeouts."""
    scenario = saturated(2, 200e3, RECORD_BYTES, 1.0, interval_s=5.0, measured_s=60.0)
    rows = []
    asked = [
        Asked(scenario, f"overtakes {limit}{suffix}") for limit in LIMITS for suffix in ("", ", debloating")
    ]
    found = list(run_all(pool, asked))
    for place, limit in enumerate(LIMITS):
        off, on = found[2 * place : 2 * place + 2]
        at_sender = min(2 * limit, in_partition(2))
        at_receiver = min(2 * limit, in_use(2) - in_partition(2))
        left = (in_use(2) - at_sender - at_receiver) * SEGMENT / bytes_per_s(off, 2, RECORD_BYTES)
        stored = 2 * (at_sender + at_receiver) * SEGMENT
        rows.append(
            [
                f"overtakes {limit}",
                f"**{left * 1000:,.0f}**",
                f"**{stored / KIB:,.0f}**",
                *_cost(off),
                *_cost(on),
            ]
        )
    others = [f"timeout {ms} ms" for ms in TIMEOUTS_MS] + ["unaligned"]
    for name, off in zip(others, run_all(pool, [Asked(scenario, name) for name in others]), strict=True):
        rows.append([name, "", "", *_cost(off), "", "", ""])
    on = next(iter(run_all(pool, [Asked(scenario, "unaligned, debloating")])))
    rows[-1][-3:] = _cost(on)
    head = ["", "formula: end to end, ms", "formula: stored, KiB"]
    for name in ("", "debloating: "):
        head += [f"{name}end to end, ms", f"{name}stored, KiB", f"{name}record delay, ms"]
    return table(head, rows)


def _cost(one: Figures) -> list[str]:
    return [f"{one.end_to_end_ms:,.0f}", f"{one.stored_bytes / KIB:,.0f}", f"{one.delay_ms:,.0f}"]


def compared(pool: Executor, cases: Sequence[Case], seeds: Sequence[int]) -> str:
    """All mechanisms on all jobs."""
    asked = [
        Asked(case.scenario, mechanism, seed)
        for case in cases
        for mechanism in COMPARED.values()
        for seed in seeds
    ]
    found = iter(run_all(pool, asked))
    texts = []
    for case in cases:
        texts.append(_one_job(case, {name: medians([next(found) for _ in seeds]) for name in COMPARED}))
        print(case.scenario.name, file=sys.stderr, flush=True)
    return "\n".join(texts)


def _one_job(case: Case, found: dict[str, Figures]) -> str:
    base = found["as it is"].records_per_s
    rows = [
        [
            name,
            f"{one.end_to_end_ms:,.0f}",
            f"{one.worst_ms:,.0f}",
            f"{one.delay_ms:,.0f}",
            f"{one.records_per_s / base:.1%}",
            f"{one.stored_bytes / KIB:,.0f}",
        ]
        for name, one in found.items()
    ]
    target = case.scenario.config.debloat_target_s * 1000
    title = f"**{case.scenario.name}**: {case.about}; target {target:.0f} ms.\n"
    head = ("", "end to end, ms", "worst, ms", "record delay, ms", "throughput", "stored, KiB")
    return f"{title}\n{table(head, rows)}"
