"""Unaligned barriers and alignment timeouts: single rules as traces, and promises that hold in any order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    Abort,
    Action,
    Alarm,
    Alignment,
    AlignmentEnd,
    AlignmentMetrics,
    AlternatingAligner,
    AlternatingState,
    BarrierAligner,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfPartition,
    EventAnnouncement,
    FailureReason,
    LocalProtocolError,
    Prioritize,
    Resume,
    Trigger,
)
from tests.flowcontrol.gate_model import Data, Item, ModelGate


def barrier(
    checkpoint_id: int, alignment: Alignment = Alignment.ALIGNED, timeout_s: float | None = None
) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(alignment, timeout_s))


def unaligned(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.UNALIGNED)


def forced(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.FORCED_ALIGNED, 2.0)


def test_forced_barriers_align_and_are_triggered_as_forced() -> None:
    aligner = AlternatingAligner(2)

    assert aligner.barrier(0, forced(1), now=9.0) == []
    assert aligner.barrier(1, barrier(1), now=9.0) == [
        Trigger(forced(1), AlignmentMetrics(9.0, 0.0, 0)),
        Resume(0),
        Resume(1),
    ]
    aligner.barrier(0, barrier(2), now=9.0)
    assert aligner.barrier(1, barrier(2), now=9.0)[0] == Trigger(barrier(2), AlignmentMetrics(9.0, 0.0, 0))


def test_a_cancel_of_a_newer_checkpoint_also_tells_of_one_that_was_triggered() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, unaligned(1), now=0.0)
    aligner.barrier(1, barrier(1), now=0.0)

    assert aligner.cancel(2, 4, now=0.0) == [
        Resume(1),
        Abort(1, FailureReason.DECLINED_SUBSUMED),
        Abort(4, FailureReason.DECLINED_ON_CANCELLATION_BARRIER),
    ]


TIMEOUT_S = 0.05
OPTIONS = {
    "aligned": CheckpointOptions(),
    "timeoutable": CheckpointOptions(timeout_s=TIMEOUT_S),
    "unaligned": CheckpointOptions(Alignment.UNALIGNED),
    "forced": CheckpointOptions(Alignment.FORCED_ALIGNED, TIMEOUT_S),
}


class Sender:
    """What one channel has sent: its data by number, and where in it each barrier stands."""

    def __init__(self) -> None:
        self.data = 0
        self.next_id = 1
        self.cut: dict[int, int] = {}
        self.blocked = False
        self.ended = False


class CheckedGate(ModelGate):
    """A gate with senders that behave; every promise of the handler is checked as it is made.

    `counted` holds, by checkpoint, the channels whose barrier or end was polled.
    """

    def __init__(self, remote: list[bool], count_ends: bool) -> None:
        super().__init__(AlternatingAligner(len(remote), checkpoints_after_tasks_finish=count_ends), remote)
        self.senders = [Sender() for _ in remote]
        self.created_at: dict[int, float] = {}
        self.processed: list[list[int]] = [[] for _ in remote]
        self.processed_at_trigger: dict[int, list[list[int]]] = {}
        self.count_ends = count_ends
        self.ended: set[int] = set()
        self.waiting: set[int] = set()
        self.barriers_polled: dict[int, set[int]] = {}
        self.overtaking: set[int] = set()
        self.announced: dict[tuple[int, int], int] = {}
        self.triggered: list[int] = []
        self.aborted: list[int] = []
        self.incomplete: int | None = None
        self.alarmed: set[int] = set()

    # What the senders do.

    def send(self, number: int, kind: str, skip: int) -> None:
        sender = self.senders[number]
        if sender.blocked or sender.ended:
            return
        match kind:
            case "data":
                sender.data += 1
                self.arrive(number, Data(sender.data, 10))
            case "end":
                sender.ended = True
                self.arrive(number, EndOfPartition())
            case "cancel":
                self.arrive(number, CancelCheckpointMarker(self.take_id(sender, skip)))
            case _:
                checkpoint_id = self.take_id(sender, skip)
                sender.cut[checkpoint_id] = sender.data
                options = OPTIONS[kind]
                sender.blocked = options.needs_alignment
                created_at = self.created_at.setdefault(checkpoint_id, self.now)
                self.arrive(number, CheckpointBarrier(checkpoint_id, created_at, options))

    def take_id(self, sender: Sender, skip: int) -> int:
        checkpoint_id = sender.next_id + skip
        sender.next_id = checkpoint_id + 1
        return checkpoint_id

    # What the task does, and what must be true.

    def handle(self, channel: int, item: Item) -> list[Action]:
        match item:
            case Data(number):
                self.processed[channel].append(number)
            case CheckpointBarrier(checkpoint_id, _, options):
                self.barriers_polled.setdefault(checkpoint_id, set()).add(channel)
                if options.is_unaligned:
                    self.overtaking.add(checkpoint_id)
                else:
                    self.waiting.add(channel)
            case EventAnnouncement(barrier, sequence_number):
                self.announced[channel, sequence_number] = barrier.checkpoint_id
            case EndOfPartition():
                self.ended.add(channel)
        return super().handle(channel, item)

    def poll(self) -> tuple[int, Item] | None:
        polled = super().poll()
        self.check()
        return polled

    def run_alarms(self) -> None:
        super().run_alarms()
        self.check()
        handler = self.handler
        current = handler.current_checkpoint_id
        begun = handler.pending and handler.alignment_s(self.now + 1) > handler.alignment_s(self.now)
        if begun and current in self.alarmed and self.now - self.created_at[current] > TIMEOUT_S:
            assert handler.state not in (AlternatingState.WAITING, AlternatingState.COLLECTING)
            assert self.incomplete == current or not self.barriers_polled.get(current)

    def note(self, action: Action) -> None:
        match action:
            case Resume(channel):
                self.waiting.remove(channel)  # a second Resume would fail here
                assert self.senders[channel].blocked
                self.senders[channel].blocked = False
            case Abort(checkpoint_id):
                assert checkpoint_id not in self.aborted
                if checkpoint_id == self.incomplete:
                    self.incomplete = None
                else:
                    assert checkpoint_id not in self.triggered
                self.aborted.append(checkpoint_id)
            case Trigger():
                self.trigger(action)
            case AlignmentEnd(checkpoint_id, metrics):
                assert checkpoint_id == self.incomplete
                assert metrics.bytes_processed >= 0
                self.incomplete = None
                self.check_cut(checkpoint_id)
            case Prioritize(channel, sequence_number):
                assert self.announced[channel, sequence_number] == self.handler.current_checkpoint_id
            case Alarm(checkpoint_id, delay_s):
                assert checkpoint_id == self.handler.current_checkpoint_id
                assert 0 <= delay_s <= TIMEOUT_S
                assert checkpoint_id not in self.alarmed
                self.alarmed.add(checkpoint_id)

    def trigger(self, action: Trigger) -> None:
        checkpoint_id = action.barrier.checkpoint_id
        assert checkpoint_id == self.handler.current_checkpoint_id
        assert self.incomplete is None
        assert checkpoint_id not in self.aborted
        assert self.triggered[-1:] < [checkpoint_id]
        assert self.barriers_polled[checkpoint_id]
        assert (action.metrics is None) == action.barrier.options.is_unaligned
        self.triggered.append(checkpoint_id)
        self.processed_at_trigger[checkpoint_id] = [list(numbers) for numbers in self.processed]
        if action.metrics is None:
            self.incomplete = checkpoint_id
            late = self.now - self.created_at[checkpoint_id] >= TIMEOUT_S - 1e-9
            assert late or checkpoint_id in self.overtaking
        else:
            assert checkpoint_id not in self.overtaking
            self.check_cut(checkpoint_id)

    def check_cut(self, checkpoint_id: int) -> None:
        """What was processed before the snapshot and what was persisted is what stood before the barrier."""
        for number, sender in enumerate(self.senders):
            persisted = [data.number for data in self.channels[number].persisted.get(checkpoint_id, [])]
            known = self.processed_at_trigger[checkpoint_id][number] + persisted
            assert known == list(range(1, sender.cut.get(checkpoint_id, sender.data) + 1))

    def check(self) -> None:
        """Check the invariants that hold between two items."""
        handler = self.handler
        current = handler.current_checkpoint_id
        assert set(handler.blocked) == self.waiting - self.ended
        assert handler.pending or not self.waiting - self.ended
        assert (self.incomplete is not None) == (handler.state is AlternatingState.COLLECTING_UNALIGNED)
        missing = set(range(len(self.channels))) - self.ended - self.barriers_polled.get(current, set())
        assert missing or not handler.pending
        assert self.incomplete in (None, current)
        assert handler.state is AlternatingState.WAITING or handler.pending


def play(gate: CheckedGate, steps: list[tuple[str, int, int]]) -> None:
    for kind, number, amount in steps:
        match kind:
            case "poll":
                gate.poll()
            case "wait":
                gate.now_ms += 10 * amount
            case "alarms":
                gate.run_alarms()
            case _:
                gate.send(number % len(gate.channels), kind, skip=amount // 3)


def settle(gate: CheckedGate) -> None:
    while gate.poll() is not None:
        pass


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["poll"] * 6 + ["data"] * 4 + ["timeoutable"] * 4 + ["unaligned"] * 2
            + ["aligned", "forced", "cancel", "end", "wait", "wait", "alarms"]
        ),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=120,
)  # fmt: skip
REMOTE = st.lists(st.booleans(), min_size=1, max_size=4)


@given(remote=REMOTE, count_ends=st.booleans(), steps=STEPS)
def test_promises_hold_for_any_interleaving(
    remote: list[bool], count_ends: bool, steps: list[tuple[str, int, int]]
) -> None:
    gate = CheckedGate(remote, count_ends)
    play(gate, steps)


@given(remote=REMOTE, steps=STEPS, kind=st.sampled_from(sorted(OPTIONS)))
def test_whatever_happened_a_later_checkpoint_of_all_channels_is_triggered(
    remote: list[bool], steps: list[tuple[str, int, int]], kind: str
) -> None:
    gate = CheckedGate(remote, count_ends=True)
    play(gate, steps)
    settle(gate)
    last_id = max(sender.next_id for sender in gate.senders)
    for number in [*range(len(remote))] * 2:  # the first newer barrier resumes those that wait
        if gate.senders[number].next_id <= last_id:
            gate.senders[number].next_id = last_id
            gate.send(number, kind, skip=0)
            settle(gate)

    open_channels = [number for number, sender in enumerate(gate.senders) if not sender.ended]
    assert (gate.triggered[-1:] == [last_id]) == bool(open_channels)
    assert gate.incomplete is None
    assert not gate.handler.pending
    assert not gate.waiting - gate.ended


@given(
    remote=REMOTE,
    order=st.permutations([number for number in range(4) for _ in range(3)]),
    kinds=st.lists(st.sampled_from(["timeoutable", "unaligned"]), min_size=3, max_size=3),
    waits=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_every_checkpoint_is_triggered_once_where_none_is_given_up(
    remote: list[bool], order: list[int], kinds: list[str], waits: list[int]
) -> None:
    gate = CheckedGate(remote, count_ends=True)
    for checkpoint, kind in enumerate(kinds):
        for number, wait in zip(order[checkpoint * 4 : checkpoint * 4 + 4], waits, strict=False):
            if number < len(remote) and gate.senders[number].next_id == checkpoint + 1:
                gate.send(number, "data", skip=0)
                gate.send(number, kind, skip=0)
            gate.now_ms += 10 * wait
            gate.run_alarms()
            gate.poll()
        for number, sender in enumerate(gate.senders):
            if sender.next_id == checkpoint + 1:
                gate.send(number, kind, skip=0)
        settle(gate)

    assert gate.triggered == [1, 2, 3]
    assert gate.aborted == []
    assert not gate.waiting
    assert all(
        trigger.barrier.options.is_unaligned
        for trigger, kind in zip(gate.triggers(), kinds, strict=True)
        if kind == "unaligned"
    )


CHANNELS = 3
ALIGNED = CheckpointOptions()

Call = tuple[str, tuple[Any, ...]]


def aligned_calls() -> st.SearchStrategy[list[Call]]:
    """Calls with which a gate reports aligned barriers and other events to its handler, in any order."""
    channels, ids = st.integers(0, CHANNELS - 1), st.integers(1, 4)
    barriers = st.builds(CheckpointBarrier, ids, st.just(0.0), st.just(ALIGNED))
    return st.lists(
        st.one_of(
            st.tuples(st.just("barrier"), st.tuples(channels, barriers)),
            st.tuples(st.just("cancel"), st.tuples(channels, ids)),
            st.tuples(st.just("end_of_partition"), st.tuples(channels)),
            st.tuples(st.just("bytes_processed"), st.tuples(st.integers(0, 100))),
        ),
        max_size=12,
    )


def told(handler: Any, call: Call, now: float) -> list[Action] | str | None:
    """Return the actions of a handler, or the message of its error."""
    method, arguments = call
    if method != "bytes_processed":
        arguments = (*arguments, now)
    try:
        actions: list[Action] | None = getattr(handler, method)(*arguments)
    except LocalProtocolError as error:
        return str(error)
    return actions


@given(aligned_calls(), st.booleans())
def test_aligned_barriers_are_handled_as_by_a_handler_that_knows_no_others(
    calls: list[Call], count_ends: bool
) -> None:
    either = AlternatingAligner(CHANNELS, checkpoints_after_tasks_finish=count_ends)
    aligned = BarrierAligner(CHANNELS, checkpoints_after_tasks_finish=count_ends)
    for now, call in enumerate(calls):
        assert told(either, call, float(now)) == told(aligned, call, float(now))
        assert (either.pending, either.blocked) == (aligned.pending, aligned.blocked)
        assert either.start_delay_s == aligned.start_delay_s
