"""A change of the protocol: a task that has taken its unaligned snapshot blocks no channel any more.

A barrier that has not overtaken blocks its channel, since the data after it must not get into the snapshot.
In an unaligned checkpoint the snapshot is taken with the first barrier, so no data that is read later gets
into it. Flink still keeps such channels blocked until the last barrier has arrived, which can deadlock a job
(docs/CHECKPOINTS.md). Here they are resumed at once::

    Flink      |1|  snapshot ........ blocked ........ last barrier, resumed
    here       |1|  snapshot, resumed

What is stored is the same: of a channel whose barrier has come nothing is in flight.

``python docs/examples/released_at_snapshot.py`` in a checkout runs the two jobs that block. The
first still does: all inputs of its `join` are aligned, so its snapshot is not taken before the last barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowcontrol import (
    Action,
    AlternatingAligner,
    AlternatingState,
    BarrierHandler,
    CheckpointBarrier,
    Resume,
)
from integration import load_scenario
from netstack import NetworkConfig, Result, emulate
from netstack.tasks import input_barriers

EXAMPLES = Path(__file__).parent
JOBS = ("standstill", "standstill_after_expiry")


class ReleasingAligner(AlternatingAligner):
    """Resumes blocked channels when it has triggered an unaligned snapshot, and later ones at once."""

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Take note of a barrier."""
        return self._release(super().barrier(channel, barrier, now))

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Take note that a channel has ended."""
        return self._release(super().end_of_partition(channel, now))

    def alarm(self, checkpoint_id: int, now: float) -> list[Action]:
        """The time of an aligned checkpoint is over."""
        return self._release(super().alarm(checkpoint_id, now))

    def _release(self, actions: list[Action]) -> list[Action]:
        if self.state is not AlternatingState.COLLECTING_UNALIGNED:
            return actions
        released = [*actions, *map(Resume, self.blocked)]
        self._blocked.clear()
        return released


@contextmanager
def released_at_snapshot() -> Iterator[None]:
    """Let all jobs in the block resume channels so."""
    usual = input_barriers.create_barrier_handler

    def releasing(config: NetworkConfig, channels: int) -> BarrierHandler:
        if config.barrier_mode.handler is not AlternatingAligner:
            return usual(config, channels)
        after_finish = config.checkpoints_after_tasks_finish
        return ReleasingAligner(channels, checkpoints_after_tasks_finish=after_finish)

    input_barriers.create_barrier_handler = releasing
    try:
        yield
    finally:
        input_barriers.create_barrier_handler = usual


def read_per_s(result: Result) -> float:
    """Records a second that the last vertex reads."""
    return sum(rate or 0.0 for rate in result.steady[-1].vertices[-1].records_in_per_s)


def main() -> None:
    """Print a table."""
    print("| job | records/s as it is | released at the snapshot |\n|---|---:|---:|")
    for job in JOBS:
        scenario = load_scenario(EXAMPLES / f"{job}.toml")
        as_it_is = read_per_s(emulate(scenario))
        with released_at_snapshot():
            print(f"| {job} | {as_it_is:,.0f} | {read_per_s(emulate(scenario)):,.0f} |")


if __name__ == "__main__":
    main()
