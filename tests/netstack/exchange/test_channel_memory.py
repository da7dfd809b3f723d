"""What a channel takes while nothing has come on it: of a large job, most of the memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import trio

from netstack import Edge, GeneratorSpec, Scenario, Vertex, run_job

MOST_BYTES = 1500


def idle_job(parallelism: int) -> Scenario:
    return Scenario(
        name="idle",
        duration_s=2.0,
        vertices=(
            Vertex(
                name="source", parallelism=parallelism, source=GeneratorSpec(record_bytes=8, rates=(1e-6,))
            ),
            Vertex(name="sink", parallelism=parallelism),
        ),
        edges=(Edge(source="source", target="sink", ship="rebalance"),),
    )


def bytes_while_running(parallelism: int) -> int:
    """Memory of a job whose channels have all been requested, and are idle."""
    seen: dict[float, int] = {}

    def look(now: float) -> None:
        seen[now] = tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        trio.run(lambda: run_job(idle_job(parallelism), progress=look, real_time=False))
    finally:
        tracemalloc.stop()
    return seen[1.0]


@pytest.mark.long
def test_an_idle_channel_takes_less_than_one_and_a_half_kilobytes() -> None:
    bytes_while_running(2)  # what is made once, whatever the job
    few, more, most = (bytes_while_running(parallelism) for parallelism in (32, 64, 96))
    # What grows with the subtasks falls out, and what grows with their square stays.
    assert (most - 2 * more + few) / (96**2 - 2 * 64**2 + 32**2) < MOST_BYTES
