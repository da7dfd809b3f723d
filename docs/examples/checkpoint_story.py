"""The story of a checkpoint: the same small job in each checkpoint mode, with a failure and a restart.

Two sources count 1, 2, 3, ...; even numbers go to one subtask that sums, odd ones to another. When the
checkpoint starts, source 1 has sent 1 to 3 and source 2 has sent 1 to 4::

    source 1   1 2 3 | 4 5 6 ---+--> sum_even
                                X
    source 2   1 2 3 4 | 5 6 ---+--> sum_odd        |: the barrier of the checkpoint

Of what is left of the bars, sum_even gets 2, 2 and 4, which makes 8. Run it with
``python docs/examples/checkpoint_story.py``: it prints what the coordinator, the sources and sum_even do.
``--all`` shows all tasks; a name, such as ``unaligned``, chooses a mode.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock, RecordDecoder
from netstack import (
    AtTime,
    CheckpointMode,
    CollectionSource,
    CostModel,
    Edge,
    HandleReader,
    KillSubtask,
    MemoryStorage,
    NetworkConfig,
    Operator,
    OperatorContext,
    Scenario,
    SourceObject,
    StateKind,
    SubtaskName,
    SubtaskState,
    TraceLog,
    TransactionLog,
    Vertex,
    default_max_parallelism,
    emulate,
    payload_hash,
    transactional_sink,
)

NUMBERS = [b"%d" % number for number in range(1, 7)]

ALIGNED = NetworkConfig(
    buffer_timeout_interval_s=0.0, restart_initial_backoff_s=0.02, restart_jitter_factor=0.0
)
"""Each record is sent at once, and the job restarts soon."""

MODES = {
    "aligned": ALIGNED,
    "at-least-once": replace(ALIGNED, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE),
    "unaligned": replace(ALIGNED, unaligned_enabled=True),
    "timeout": replace(ALIGNED, unaligned_enabled=True, aligned_checkpoint_timeout_s=0.02),
}

COSTS = CostModel(
    jitter_sigma=0.0,
    oversleep_s=0.0,
    after_sleep_s=0.0,
    subtask_factor=(1.0, 1.0),
    trigger_s=(0.01, 0.01),  # source 1 hears of the checkpoint 10 ms after the request,
    trigger_per_source_s=0.01,  # and source 2 another 10 ms later
    sync_s=(0.001, 0.001),
    ack_s=(0.003, 0.003),
    ack_unaligned_s=(0.003, 0.003),
    deploy_s=0.0,  # the tasks are there again as soon as the restart delay is over
    deploy_per_task_s=0.0,
)
"""Times without anything random, so that the story is always the same."""

NAMES = {
    "number[0]": "source 1",
    "number[1]": "source 2",
    "sum[0]": "sum_odd",
    "sum[1]": "sum_even",
    "result[0]": "result",
}

HIDDEN = ("sum_odd", "result")
"""Tasks whose steps are left out without ``--all``."""


def parity(number: int) -> bytes:
    """The key of a number."""
    return b"odd" if number % 2 else b"even"


def parity_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Java's hash code of the key of each record."""
    return payload_hash(RecordBlock.from_payloads([parity(int(payload)) for payload in _payloads(block)]))


class Sum(Operator):
    """Sums numbers by parity in keyed state, and says so; emits the sums at the end."""

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self._sum = context.keyed.value("sum", 0)

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add up."""
        context = self._context
        for payload, group in zip(_payloads(block), context.key_groups(block), strict=True):
            context.keyed.set_current_key(parity(int(payload)), group)
            self._sum.update(self._sum.get() + int(payload))
            context.trace(f"adds {int(payload)}, makes {self._sum.get()}")
        return RecordBlock.from_payloads([])

    def finish(self) -> RecordBlock:
        """One record for each key."""
        return RecordBlock.from_payloads([b"%b %d" % item for item in self._sum.items()])


def _payloads(block: RecordBlock) -> list[bytes]:
    return [bytes(payload) for payload in block.payloads()]


def scenario(mode: str, log: TransactionLog) -> Scenario:
    """The job; it writes its results to `log`."""
    source = CollectionSource([NUMBERS, NUMBERS], key_hash=parity_hash)
    return Scenario(
        name=mode,
        duration_s=2.0,
        vertices=(
            Vertex(name="number", parallelism=2, source=SourceObject(source=source, rates=(100.0,))),
            Vertex(
                name="sum",
                parallelism=2,
                operator=lambda subtask: Sum(),
                service=((0.0, 0.012),),
                service_mode="exact",
            ),
            Vertex(name="result", operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="number", target="sum", ship="hash"),
            Edge(source="sum", target="result", ship="rebalance"),
        ),
        config=MODES[mode],
        costs=COSTS,
        manual_checkpoints_s=(0.015,),
        faults=(KillSubtask(when=AtTime(0.07), subtask=SubtaskName("sum", 1)),),
    )


@dataclass(frozen=True)
class Story:
    """Result of one mode; `trace` has the place of each step and its line.

    `snapshot` and `in_flight` are what the checkpoint has for sum_even: its sum, and the numbers that were on
    their way to it. `sums` are the results of the job.
    """

    trace: tuple[tuple[str, str], ...]
    snapshot: int
    in_flight: tuple[int, ...]
    sums: dict[str, int]


def tell(mode: str) -> Story:
    """Run the job in one of the `MODES`, with a failure after the checkpoint."""
    log, trace, storage = TransactionLog(), TraceLog(), MemoryStorage()
    emulate(scenario(mode, log), storage=storage, trace=trace)
    snapshot, in_flight = read_sum_even(storage)
    sums = {name.decode(): int(total) for name, total in (record.split() for record in log.records)}
    steps = [(NAMES.get(event.place, event.place), readable(str(event))) for event in trace]
    return Story(tuple(steps), snapshot, in_flight, sums)


def read_sum_even(storage: MemoryStorage) -> tuple[int, tuple[int, ...]]:
    """Return the part of sum_even in checkpoint 1: the sum in its state, the numbers in its channel state."""
    stored = storage.load(1).of("sum", 1)
    assert stored is not None
    read = HandleReader(storage)
    state = SubtaskState("sum", 1, 2, default_max_parallelism(2))
    state.restore(stored.handles, read)
    channels = [handle for handle in stored.handles if handle.kind is StateKind.INPUT_CHANNEL]
    blocks = [RecordDecoder().feed(read(handle)) for handle in channels]
    in_flight = tuple(int(payload) for block in blocks for payload in _payloads(block))
    sums: dict[bytes, int] = dict(state.keyed.value("sum", 0).items())
    return sums.get(b"even", 0), in_flight


def readable(line: str) -> str:
    """A line of the trace with the names of the story."""
    for name, readable_name in NAMES.items():
        line = line.replace(f"{name:<14}", f"{readable_name:<14}").replace(name, readable_name)
    return line


def main(arguments: list[str]) -> None:
    """Print the story of each mode."""
    hidden = () if "--all" in arguments else HIDDEN
    for mode in [word for word in arguments if word in MODES] or MODES:
        story = tell(mode)
        print(f"== {mode}", *[line for place, line in story.trace if place not in hidden], sep="\n")
        in_flight = f", in flight {' and '.join(map(str, story.in_flight))}" if story.in_flight else ""
        print(f"checkpoint 1 has for sum_even: {story.snapshot}{in_flight}")
        print(f"results: even {story.sums['even']}, odd {story.sums['odd']}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
