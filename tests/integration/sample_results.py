"""Small results made by hand: runs of one job, without debloating, with it, and with what can go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from netstack import (
    CheckpointResult,
    FaultResult,
    RestartResult,
    Result,
    Series,
    Steady,
    VertexCheckpoint,
    VertexSteady,
    read_scenario,
    scenario_document,
)

SOURCE, CONSUMER = "flights", "consumer"
SUBTASKS = 4
SECONDS = 20
WARMUP = 8
SHARES = (1.0, 0.5, 0.25, 0.25)


def sample_result(*, debloated: bool, checkpoints: bool = True, rate: float = 1000.0) -> Result:
    """A result whose numbers follow from few: buffers of 32768 or of 5000 to 8000 bytes."""
    slow = 1.0 if debloated else 5.0
    found = [_checkpoint(number, slow) for number in range(SECONDS // 2)] if checkpoints else []
    return Result(
        scenario=read_scenario(_scenario(debloated)),
        preset="flink-2.2",
        clock="virtual",
        seed=3,
        emulated_seconds=float(SECONDS),
        wall_seconds=0.25,
        versions={"netstack": "0.1.0", "python": "3.11.2"},
        checkpoints=found,
        steady=[_steady(debloated, slow, len(found) * (SECONDS - WARMUP) // SECONDS, rate)],
        series=[
            Series(
                vertex=SOURCE,
                t=_times(),
                numRecordsOut=_counts(rate),
                outputQueueLength=_levels([14, 15, 3, 3], slow),
                outputQueueSize=_levels([60_000, 60_000, 2_000, 2_000], slow),
                inputQueueLength=_levels([0] * SUBTASKS, 1),
                inputQueueSize=_levels([0] * SUBTASKS, 1),
            ),
            Series(
                vertex=CONSUMER,
                t=_times(),
                numRecordsIn=_counts(rate),
                debloatedBufferSize=_sizes() if debloated else UNSET,
                inputQueueLength=_levels([12, 8, 4, 6], slow),
                inputQueueSize=_levels([40_000, 20_000, 5_000, 15_000], slow),
                outputQueueLength=_levels([0] * SUBTASKS, 1),
                outputQueueSize=_levels([0] * SUBTASKS, 1),
            ),
        ],
    )


def sample_results() -> dict[str, Result]:
    """Both runs by name."""
    return {
        "debloating off": sample_result(debloated=False),
        "debloating on": sample_result(debloated=True),
    }


MIB = 1 << 20


def with_flink(result: Result, options: Mapping[str, object]) -> Result:
    """The result with further options of Flink's in its scenario."""
    return with_document(result, {"flink": scenario_document(result.scenario)["flink"] | options})


def with_document(result: Result, changes: Mapping[str, object]) -> Result:
    """The result with other parts of the document of its scenario."""
    document = scenario_document(result.scenario) | changes
    return replace(result, scenario=read_scenario(document, to_run=False))


def unaligned_result(*, restarted: bool = True) -> Result:
    """A run with unaligned checkpoints of 2 MiB in flight; one failed, and one was going on at the end.

    At 9 s a subtask is killed, the storage fills up at 13 s, and the job is down from 9 to 11 s.
    """
    result = sample_result(debloated=False)
    found = [_unaligned(checkpoint) for checkpoint in result.checkpoints]
    found[6] = replace(found[6], status="FAILED", failure="IO_EXCEPTION", duration_ms=None)
    found[9] = replace(found[9], status="IN_PROGRESS", duration_ms=None, checkpoint_type="CHECKPOINT")
    result = replace(
        with_flink(result, {"execution.checkpointing.unaligned.enabled": True}),
        checkpoints=found,
        steady=[replace(result.steady[0], persisted_bytes=2.0 * MIB)],
        faults=[
            FaultResult(t=9.0, kind="kill_subtask", what="subtask consumer[1] is killed"),
            FaultResult(t=13.0, kind="fill_storage", what="the checkpoint storage is full"),
        ],
        restarts=[
            RestartResult(
                failed_at=9.0,
                cause="subtask consumer[1] is killed",
                restarted_at=10.5,
                running_at=11.0,
                checkpoint_id=4,
                restored_bytes=3 * MIB,
                persisted_bytes=2 * MIB,
            )
        ],
    )
    return result if restarted else replace(result, restarts=[], faults=[])


def _unaligned(checkpoint: CheckpointResult) -> CheckpointResult:
    source, consumer = checkpoint.vertices
    return replace(
        checkpoint,
        checkpoint_type="UNALIGNED_CHECKPOINT",
        state_bytes=3 * MIB,
        persisted_bytes=2 * MIB,
        vertices=[
            source,
            replace(
                consumer,
                sync_ms=[2.0] * SUBTASKS,
                async_ms=[601.0, 451.0, 51.0, 151.0],
                unaligned=[True] * SUBTASKS,
                alignment_processed_bytes=[1000] * SUBTASKS,
                alignment_persisted_bytes=[MIB // 2] * SUBTASKS,
            ),
        ],
    )


def _scenario(debloated: bool) -> dict[str, Any]:
    return {
        "name": "sample",
        "duration": f"{SECONDS} s",
        "warmup": f"{WARMUP} s",
        "seed": 3,
        "preset": "flink-2.2",
        "flink": {
            "taskmanager.network.memory.buffer-debloat.enabled": debloated,
            "execution.checkpointing.interval": "2 s",
        },
        "vertices": [
            {
                "name": SOURCE,
                "parallelism": SUBTASKS,
                "source": {"path": "flights.csv", "key": "carrier", "repeat": True, "rate": [0, 0, 100, 100]},
            },
            {"name": CONSUMER, "parallelism": SUBTASKS, "service": "400 us"},
        ],
        "edges": [{"from": SOURCE, "to": CONSUMER, "ship": "hash"}],
    }


def _checkpoint(number: int, slow: float) -> CheckpointResult:
    delays = [80.0 * slow, 60.0 * slow, 20.0 * slow, 40.0 * slow]
    alignments = [120.0 * slow, 90.0 * slow, 10.0 * slow, 30.0 * slow]
    source = VertexCheckpoint(
        name=SOURCE,
        end_to_end_ms=[12.0] * SUBTASKS,
        start_delay_ms=[7.0] * SUBTASKS,
        alignment_ms=[0.0] * SUBTASKS,
        sync_ms=[0.0] * SUBTASKS,
        async_ms=[0.0] * SUBTASKS,
        unaligned=[False] * SUBTASKS,
    )
    consumer = VertexCheckpoint(
        name=CONSUMER,
        end_to_end_ms=[a + b + 6 for a, b in zip(delays, alignments, strict=True)],
        start_delay_ms=delays,
        alignment_ms=alignments,
        sync_ms=[1.0] * SUBTASKS,
        async_ms=[1.0] * SUBTASKS,
    )
    return CheckpointResult(
        id=number + 1, t=0.7 + 2 * number, duration_ms=200 * slow + 6, vertices=[source, consumer]
    )


def _steady(debloated: bool, slow: float, checkpoints: int, rate: float) -> Steady:
    known = checkpoints > 0
    return Steady(
        from_s=WARMUP,
        to_s=SECONDS,
        checkpoints=checkpoints,
        end_to_end_ms=200 * slow + 6 if known else None,
        vertices=[
            VertexSteady(
                name=SOURCE, parallelism=SUBTASKS, start_delay_ms_max_subtask=7.0 if known else None
            ),
            VertexSteady(
                name=CONSUMER,
                parallelism=SUBTASKS,
                start_delay_ms_max_subtask=80 * slow if known else None,
                alignment_ms_max_subtask=120 * slow if known else None,
                records_in_per_s=[share * rate for share in SHARES],
                bytes_in_per_s=[100 * share * rate for share in SHARES],
                debloatedBufferSize=[5000, 6000, 8000, 7000] if debloated else [None] * SUBTASKS,
            ),
        ],
    )


def _times() -> list[float]:
    return [float(second) for second in range(SECONDS + 1)]


def _counts(rate: float) -> list[list[int]]:
    return [[int(share * rate * t) for t in _times()] for share in SHARES]


def _levels(levels: list[int], slow: float) -> list[list[int]]:
    return [[int(level * slow * (0.9 if t % 2 else 1.0)) for t in range(SECONDS + 1)] for level in levels]


def _sizes() -> list[list[float | None]]:
    ends = [5000, 6000, 8000, 7000]
    return [[max(end, 32768 - 4000.0 * t) for t in _times()] for end in ends]
