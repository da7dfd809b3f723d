"""The counters of a run without failures: they say what went through each vertex, no more and no less.

Where a share of the records goes on, its turns say for each subtask how many go of those that it has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from buffers import WATERMARK_BYTES
from netstack import Job, ShipStrategy

from .case import ONE_FOR_ONE, StormCase, StormVertex, Work
from .storm_emissions import has_watermarks
from .storm_flows import Amount, at_least, by_chance, flows_of

_LENGTH_BYTES = 4


def check_counters(case: StormCase, job: Job) -> Iterator[str]:
    """Records, bytes and buffers add up over the exchanges of a job that has ended and never failed."""
    flows = flows_of(case)
    last = [
        {name: values[:, -1] for name, values in job.recorder.samples_of(number).items()}
        for number in range(len(case.vertices))
    ]
    by_subtask = dict(zip([vertex.name for vertex in case.vertices], last, strict=True))
    totals = {name: {key: own.sum() for key, own in each.items()} for name, each in by_subtask.items()}
    for vertex in case.vertices:
        counted, flow = totals[vertex.name], flows[vertex.name]
        sent = list(flow.sent.values())
        yield from _compare_records(vertex.name, "records_in", counted["records_in"], [flow.read])
        yield from _compare_records(vertex.name, "records_out", counted["records_out"], sent)
        if all(each.is_exact for each in sent):
            wanted = sum(map(_bytes_of, sent))
            if _differ(counted["bytes_out"], wanted, has_watermarks(case)):
                text = f"{vertex.name} has counted {counted['bytes_out']:.0f} bytes_out"
                yield f"{text}, and {wanted} were there"
        yield from _compare_turns(case, vertex, by_subtask[vertex.name])
        if vertex.work is not Work.SOURCE and not any(
            ShipStrategy.of(ship).copies for _, ship in case.inputs(vertex)
        ):
            over = [flows[producer.name].sent[vertex.name] for producer, _ in case.inputs(vertex)]
            wanted = sum(map(_bytes_of, over))
            if all(each.is_exact for each in over) and _differ(
                counted["bytes_in"], wanted, has_watermarks(case)
            ):
                text = f"{vertex.name} has counted {counted['bytes_in']:.0f} bytes_in"
                yield f"{text}, and {wanted} were sent to it"
    yield from _compare_sums(case, job, totals)


def _compare_sums(case: StormCase, job: Job, totals: dict[str, dict[str, float]]) -> Iterator[str]:
    read = sum(totals[vertex.name]["records_in"] for vertex in case.vertices)
    if job.work.records != read:
        yield f"{job.work.records} records are the work of the run, and {read:.0f} were read"
    buffers = sum(totals[vertex.name]["buffers_in"] for vertex in case.vertices)
    config = case.config
    has_own = config.exclusive_buffers_per_channel > 0 and config.max_required_buffers_per_gate is None
    # Without exclusive buffers empty ones are sent, too, which are never read.
    if has_own and job.work.buffers > buffers:
        yield f"{job.work.buffers} buffers went over links, and {buffers:.0f} were read"


def _compare_records(vertex: str, name: str, counted: float, amounts: list[Amount]) -> Iterator[str]:
    low, high = sum(each.low for each in amounts), sum(each.high for each in amounts)
    if not low <= counted <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        yield f"{vertex} has counted {counted:.0f} {name}, and {wanted} were there"


def _compare_turns(
    case: StormCase, vertex: StormVertex, counted: Mapping[str, NDArray[np.float64]]
) -> Iterator[str]:
    """Compare what each subtask has sent with what it has read, where turns say how many that is."""
    shares = [case.fraction(vertex.name, target) for source, target, _ in case.edges if source == vertex.name]
    if vertex.selectivity.denominator == 1 and set(shares) <= {Fraction(1)}:
        return
    for subtask in range(vertex.parallelism):
        bounds = _emitted(case, vertex, subtask, int(counted["records_in"][subtask]))
        if bounds is None:
            continue
        low, high = (sum(floor(share * number) for share in shares) for number in bounds)
        sent = int(counted["records_out"][subtask])
        if not low <= sent <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            yield f"{vertex.name}[{subtask}] has sent {sent} records, and {wanted} are due"


def _emitted(case: StormCase, vertex: StormVertex, subtask: int, read: int) -> tuple[int, int] | None:
    """How many records a subtask emits at least and at most when it has read so many; None: any number."""
    if vertex.work is Work.SOURCE:
        number = vertex.record_count(subtask)
        return number, number
    if vertex.work is Work.EMIT:
        share = vertex.selectivity
        if vertex.at_random:
            return by_chance(share, read, len(case.inputs(vertex)) if vertex.apart else 1)
        counts = len(case.inputs(vertex)) if vertex.apart else 1  # of each input for itself
        most = floor(share * read)
        return (most if counts == 1 else at_least(share, read, counts)), most
    if vertex.work in ONE_FOR_ONE or vertex.work is Work.COPY:
        return read * vertex.copies, read * vertex.copies
    return None


def _bytes_of(amount: Amount) -> int:
    return sum((len(record) + _LENGTH_BYTES) * number for record, number in amount.most.items())


def _differ(counted: float, wanted: int, watermarks: bool) -> bool:
    """Whether a count is not what it should be, or that and some watermarks."""
    more = counted - wanted
    return bool(more < 0 or more % WATERMARK_BYTES) if watermarks else more != 0
