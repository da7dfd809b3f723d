"""A checkpoint of a job whose consumers are too slow, in each checkpoint mode: what it takes and stores.

All buffers between the fast source and the consumers are full, and its barrier is behind all of them unless
it may overtake. Those of the slow source are nearly empty. Run it with
``python docs/examples/back_pressure.py``; ``--trace`` prints each step too.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from netstack import (
    CheckpointMode,
    CheckpointResult,
    CostModel,
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    TraceLog,
    Vertex,
    emulate,
)

ALIGNED = NetworkConfig()

MODES = {
    "aligned": ALIGNED,
    "at-least-once": replace(ALIGNED, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE),
    "unaligned": replace(ALIGNED, unaligned_enabled=True),
    "timeout": replace(ALIGNED, unaligned_enabled=True, aligned_checkpoint_timeout_s=0.5),
}


def scenario(mode: str) -> Scenario:
    """A source that is as fast as it can be and a slow one; two consumers of 200 records a second."""
    return Scenario(
        name=mode,
        duration_s=20.0,
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1020, rates=(0.0, 40.0))),
            Vertex(name="consumer", parallelism=2, service=((0.0, 0.005),)),
        ),
        edges=(Edge(source="source", target="consumer"),),
        config=MODES[mode],
        costs=CostModel(jitter_sigma=0.0),
        manual_checkpoints_s=(10.0,),
    )


def run(mode: str) -> tuple[TraceLog, CheckpointResult]:
    """The steps of the checkpoint that is asked for after 10 s, and what came of it."""
    trace = TraceLog()
    result = emulate(scenario(mode), trace=trace)
    return trace, result.checkpoints[0]


def row(mode: str, checkpoint: CheckpointResult) -> str:
    """A line of the table: mode, duration, longest alignment, bytes read in it, bytes in flight stored."""
    alignment = max(value or 0.0 for value in checkpoint.vertices[1].alignment_ms)
    took = f"{checkpoint.duration_ms or 0.0:,.0f} ms | {alignment:,.0f} ms"
    return f"| {mode} | {took} | {checkpoint.processed_bytes:,} | {checkpoint.persisted_bytes:,} |"


def main(arguments: list[str]) -> None:
    """Print the table, with the steps on request."""
    for mode in MODES:
        trace, checkpoint = run(mode)
        if "--trace" in arguments:
            print(*trace, sep="\n")
        print(row(mode, checkpoint))


if __name__ == "__main__":
    main(sys.argv[1:])
