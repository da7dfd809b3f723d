"""The counters of a run without failures: they say what went through each vertex, no more and no less."""

from __future__ import annotations

from collections.abc import Iterator

from buffers import WATERMARK_BYTES
from netstack import Job

from .case import StormCase, Work
from .storm_emissions import has_watermarks
from .storm_records import flows_of


def check_counters(case: StormCase, job: Job) -> Iterator[str]:
    """Records, bytes and buffers add up over the exchanges of a job that has ended and never failed."""
    flows = flows_of(case)
    last = [
        {name: values[:, -1].sum() for name, values in job.recorder.samples_of(number).items()}
        for number in range(len(case.vertices))
    ]
    totals = dict(zip([vertex.name for vertex in case.vertices], last, strict=True))
    for vertex in case.vertices:
        counted, flow = totals[vertex.name], flows[vertex.name]
        edges = sum(source == vertex.name for source, _, _ in case.edges)
        for name, wanted in (
            ("records_in", flow.read.total()),
            ("records_out", flow.written.total() * edges),
            ("bytes_out", sum((len(record) + 4) * number for record, number in flow.written.items()) * edges),
        ):
            watermarks = name == "bytes_out" and has_watermarks(case)
            if _differ(counted[name], wanted, watermarks):
                yield f"{vertex.name} has counted {counted[name]:.0f} {name}, and {wanted} were there"
        if vertex.work is not Work.SOURCE and "broadcast" not in {ship for _, ship in case.inputs(vertex)}:
            sent = sum(
                (len(record) + 4) * number
                for producer, _ in case.inputs(vertex)
                for record, number in flows[producer.name].written.items()
            )
            if _differ(counted["bytes_in"], sent, has_watermarks(case)):
                text = f"{vertex.name} has counted {counted['bytes_in']:.0f} bytes_in"
                yield f"{text}, and {sent} were sent to it"
    read = sum(totals[vertex.name]["records_in"] for vertex in case.vertices)
    if job.work.records != read:
        yield f"{job.work.records} records are the work of the run, and {read:.0f} were read"
    buffers = sum(totals[vertex.name]["buffers_in"] for vertex in case.vertices)
    config = case.config
    has_own = config.exclusive_buffers_per_channel > 0 and config.max_required_buffers_per_gate is None
    # Without exclusive buffers empty ones are sent, too, which are never read.
    if has_own and job.work.buffers > buffers:
        yield f"{job.work.buffers} buffers went over links, and {buffers:.0f} were read"


def _differ(counted: float, wanted: int, watermarks: bool) -> bool:
    """Whether a count is not what it should be, or that and some watermarks."""
    more = counted - wanted
    return bool(more < 0 or more % WATERMARK_BYTES) if watermarks else more != 0
