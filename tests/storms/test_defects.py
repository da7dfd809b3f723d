"""Defects, most of which leave the output right most of the time: some storms find each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from buffers import ChannelBuffers, LocalBufferPool, PipelinedSubpartition, RecordBlock
from flowcontrol import AlternatingAligner, BufferDebloater, WatermarkValve
from netstack import CollectionReader, ListState, RemoteInputChannel, TransactionalSink
from netstack.checkpoints.completed_store import CompletedCheckpointStore
from netstack.checkpoints.coordinator import CheckpointCoordinator
from netstack.checkpoints.pending_checkpoint import FailureCounter
from netstack.checkpoints.scheduler import CheckpointScheduler
from netstack.exchange.gate import InputGate
from netstack.exchange.partition import OpenBuffers
from netstack.exchange.selectors import Fraction
from netstack.jobs.fault_injector import FaultInjector
from netstack.state.copy_on_write import CopyOnWriteMap
from netstack.state.operator_state import OperatorStateBackend
from netstack.state.time_to_live import StateClock
from netstack.tasks.multiple_input_subtask import MultipleInputSubtask
from netstack.tasks.synthetic_output import Emission, EventTimeWindows, HeldBack
from netstack.tasks.task_checkpoints import RunningCheckpoint, TaskCheckpoints
from tests.storms.one_storm import run_storm

pytestmark = pytest.mark.long

SEEDS = 500

Method = Callable[..., Any]


def nothing(original: Method) -> Method:
    """Does not do what it should."""
    return lambda *args, **more: None


def goes_one_too_far(original: Method) -> Method:
    return lambda reader, position: original(reader, position + 1)


def overtakes_nothing(original: Method) -> Method:
    def overtake(*args: Any) -> list[bytes]:
        original(*args)
        return []

    return overtake


def keeps_one_too_many(original: Method) -> Method:
    def set_size(pool: LocalBufferPool, size: int) -> None:
        pool.size = min(size, pool.maximum)
        while pool._free and pool.requested > pool.size + 1:
            pool._return(pool._free.pop())
        if not pool.destroyed:
            pool._update()

    return set_size


def turned(original: Method) -> Method:
    def process(sink: TransactionalSink, block: RecordBlock) -> RecordBlock:
        result: RecordBlock = original(sink, RecordBlock.from_payloads(list(block.payloads())[::-1]))
        return result

    return process


def retains_one(original: Method) -> Method:
    return lambda store, storage, retained, *args: original(store, storage, 1, *args)


def misses_no_heartbeat(original: Method) -> Method:
    def init(injector: FaultInjector, *args: Any) -> None:
        original(injector, *args)
        injector._heartbeat_timeout = math.inf

    return init


def makes_no_pause(original: Method) -> Method:
    def init(scheduler: CheckpointScheduler, agenda: Any, config: Any, *args: Any, **more: Any) -> None:
        original(scheduler, agenda, replace(config, checkpoint_min_pause_s=0.0), *args, **more)

    return init


def tolerates_all(original: Method) -> Method:
    return lambda counter, checkpoint_id, reason: False


def counts_its_own(original: Method) -> Any:
    return property(lambda channel: channel.queue_length)


def is_patient(original: Method) -> Method:
    return lambda coordinator, checkpoint: 2 * original(coordinator, checkpoint) - checkpoint.triggered_at


def saves_nothing(original: Method) -> Method:
    def snapshot(entries: CopyOnWriteMap[Any, Any]) -> Any:
        taken = original(entries)
        entries._saved = None
        return taken

    return snapshot


def fires_nothing(original: Method) -> Method:
    return lambda windows, watermark: []


def emits_once(original: Method) -> Method:
    return lambda emission, block: block


def lets_all_through(original: Method) -> Method:
    return lambda fraction, block: fraction.selector.select(block)


def owes_one_at_first(original: Method) -> Method:
    def init(fraction: Fraction, share: float, selector: Any) -> None:
        original(fraction, share, selector)
        fraction._owed = 1.0 - share

    return init


def rounds(original: Method) -> Method:
    return lambda emission, selectivity, *args: original(emission, float(round(selectivity)), *args)


def draws_the_same_each_time(original: Method) -> Method:
    def init(emission: Emission, selectivity: float, record_bytes: Any, chance: Any, *args: Any) -> None:
        original(emission, selectivity, record_bytes, chance and itertools.repeat(0.99), *args)

    return init


def owes_one_more_when_restored(original: Method) -> Method:
    def start(emission: Emission, context: Any) -> None:
        original(emission, context)
        emission._owed += bool(emission._owed)

    return start


def forgets_what_it_owes(original: Method) -> Method:
    def start(emission: Emission, context: Any) -> None:
        original(emission, context)
        emission._owed = 0.0

    return start


def trims_nothing(original: Method) -> Method:
    return lambda buffers, channel, builder, minimum: original(buffers, channel, builder, 1 << 30)


def begins_at_the_last(original: Method) -> Method:
    def go_on_from(clock: StateClock, reached_ms: int) -> None:
        clock.is_used = True
        clock._ahead_ms = max(0, reached_ms - clock.now_ms)

    return go_on_from


def splits_all(original: Method) -> Method:
    return lambda backend, name, values, redistribution=None: original(backend, name, values)


def reads_the_first(original: Method) -> Method:
    def next_work(subtask: MultipleInputSubtask) -> Any:
        subtask._turn = -1
        return original(subtask)

    return next_work


def reads_again(original: Method) -> Method:
    def poll(gate: InputGate, now: float) -> Any:
        polled = original(gate, now)
        if polled is not None and polled[0] in gate._ready:
            gate._ready.remove(polled[0])
            gate._ready.appendleft(polled[0])
        return polled

    return poll


def takes_the_latest(original: Method) -> Method:
    def advance(valve: WatermarkValve, channel: int, watermark: int) -> int | None:
        risen = original(valve, channel, watermark)
        if risen is not None:
            valve.lowest = watermark
        return risen if risen is None else watermark

    return advance


def counts_from_the_arrival(original: Method) -> Method:
    def set_alarm(aligner: AlternatingAligner, before: int, now: float) -> list[Any]:
        actions = original(aligner, before, now)
        return [replace_struct(each, delay_s=each.delay_s + 0.02) for each in actions]

    return set_alarm


def sends_it_on_later(original: Method) -> Method:
    def send_on(checkpoints: TaskCheckpoints, running: RunningCheckpoint) -> None:
        now = checkpoints._environment.agenda.now
        barrier, options = running.barrier, running.barrier.options
        if options.timeout_s is not None:  # as if it were counted from now on
            later = replace_struct(options, timeout_s=options.timeout_s + now - barrier.timestamp)
            running.barrier = replace_struct(barrier, options=later)
        original(checkpoints, running)

    return send_on


def persists_on(original: Method) -> Method:
    def abort(checkpoints: TaskCheckpoints, checkpoint_id: int) -> None:
        channels, checkpoints.channels = checkpoints.channels, []
        original(checkpoints, checkpoint_id)
        checkpoints.channels = channels

    return abort


Defect = tuple[type, str, Callable[[Method], Method], str]
"""A class, one of its methods, what stands in for it, and what the check for it says, if there is one."""

DEFECTS: dict[str, Defect] = {
    "a position is off": (CollectionReader, "seek", goes_one_too_far, ""),
    "nothing is sealed": (TransactionalSink, "before_snapshot", nothing, ""),
    "state is not kept": (ListState, "add", nothing, ""),
    "blocks are turned round": (TransactionalSink, "process", turned, "out of order in sink"),
    "files of failed checkpoints stay": (
        CheckpointCoordinator,
        "_discard",
        nothing,
        "is left behind, and no checkpoint needs it",
    ),
    "one is retained": (CompletedCheckpointStore, "__init__", retains_one, "to be retained"),
    "requests of users do nothing": (
        CheckpointCoordinator,
        "request_checkpoint",
        nothing,
        "when one a user has asked for",
    ),
    "heartbeats are never missed": (FaultInjector, "__init__", misses_no_heartbeat, "no heartbeat came for"),
    "there is no pause": (CheckpointScheduler, "__init__", makes_no_pause, "was triggered at"),
    "the timeout is doubled": (CheckpointCoordinator, "_deadline", is_patient, "its time was over"),
    "tasks are not told": (CheckpointCoordinator, "_notify_tasks", nothing, "no task was told"),
    "failures are not counted": (FailureCounter, "failed", tolerates_all, "and the job went on"),
    "a selectivity is taken for 1": (Emission, "_of_one", emits_once, "missing: "),
    "a fraction is ignored": (Fraction, "select", lets_all_through, "and its shares allow"),
    "a fraction begins with a record": (Fraction, "__init__", owes_one_at_first, "are due"),
    "what is held back is lost": (HeldBack, "restore", nothing, "missing: "),
    "windows are lost": (EventTimeWindows, "restore", nothing, "missing: "),
    "windows do not fire": (EventTimeWindows, "take_until", fires_nothing, "keeps the window"),
    "a clock of state begins again in a run behind two subtasks": (
        StateClock,
        "go_on_from",
        begins_at_the_last,
        "expired",
    ),
    "lists of state are split whatever they are": (OperatorStateBackend, "put", splits_all, "were there"),
}
OF_COMPILED: dict[str, Defect] = {
    "overtaken data is forgotten": (PipelinedSubpartition, "overtake", overtakes_nothing, ""),
    "floating buffers leak": (ChannelBuffers, "_return_floating", nothing, ""),
    "a pool shrinks by one segment too few": (
        LocalBufferPool,
        "set_size",
        keeps_one_too_many,
        "keeps segments above its size",
    ),
    "sizes stay": (BufferDebloater, "recalculate", nothing, "debloating keeps"),
    "debloating counts half": (RemoteInputChannel, "buffers_in_use", counts_its_own, "wait at both ends"),
    "announced sizes are not kept": (
        PipelinedSubpartition,
        "set_buffer_size",
        nothing,
        "has announced buffers of",
    ),
    "buffers have any size": (OpenBuffers, "publish", trims_nothing, "writes a buffer of"),
    "nothing is copied on write": (CopyOnWriteMap, "snapshot", saves_nothing, "was kept at the barrier"),
    "a selectivity is rounded": (Emission, "__init__", rounds, "and its shares allow"),
    "what comes at random always comes": (Emission, "__init__", draws_the_same_each_time, "are due"),
    "an emission owes one more after a restart": (Emission, "open", owes_one_more_when_restored, "at most"),
    "what an emission owes is lost": (Emission, "open", forgets_what_it_owes, "at least"),
    "inputs are not read in turns": (
        MultipleInputSubtask,
        "_next_work",
        reads_the_first,
        "while that from",
    ),
    "channels are not read in turns": (InputGate, "poll", reads_again, "is read"),
    "the latest watermark goes on, not the least": (
        WatermarkValve,
        "advance",
        takes_the_latest,
        "and its sources emitted up to",
    ),
    "a timeout comes late at inputs": (
        AlternatingAligner,
        "_set_alarm",
        counts_from_the_arrival,
        "behind its timeout",
    ),
    "a timeout counts from the arrival at outputs": (
        TaskCheckpoints,
        "_send_on",
        sends_it_on_later,
        "behind its timeout",
    ),
    "inputs persist behind an abort": (
        TaskCheckpoints,
        "abort",
        persists_on,
        "persists inputs for checkpoint",
    ),
}
"""Those that replace a method of a compiled class, which takes plain Python."""


@pytest.mark.parametrize(
    ("where", "name", "defect", "found"),
    [
        *(pytest.param(*each, id=name) for name, each in DEFECTS.items()),
        *(pytest.param(*each, id=name, marks=pytest.mark.interpreted) for name, each in OF_COMPILED.items()),
    ],
)
def test_a_planted_defect_is_found_by_the_check_that_is_for_it(
    where: type,
    name: str,
    defect: Callable[[Method], Method],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(where, name, defect(getattr(where, name)))
    outcomes = (run_storm(seed) for seed in range(SEEDS))
    assert any(found in problem for outcome in outcomes for problem in outcome.problems)
