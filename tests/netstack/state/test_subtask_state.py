from functools import partial
from typing import Any

import pytest

from netstack import (
    DamagedFileError,
    HandleReader,
    KeyedStateBackend,
    MemoryStorage,
    OperatorStateBackend,
    Redistribution,
    StateError,
    StateHandle,
    StateKind,
    StateTtlConfig,
    StorageError,
    StoredFile,
    SubtaskState,
)
from netstack.engine.event_clock import EventClock
from netstack.exchange.key_groups import key_group_range
from netstack.state.backend import BackendSnapshot, StateBackend
from netstack.state.value_encoding import encode_value


class Writer:
    """Stores the files of checkpoint 1 in memory."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.full = False

    def __call__(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        if self.full:
            raise StorageError("no space is left")
        return self.storage.write(1, name, data, shared=shared)

    @property
    def written(self) -> dict[str, int]:
        return self.storage.contents(1)


def state_of(subtask: int = 0, parallelism: int = 1) -> SubtaskState:
    return SubtaskState("count", subtask, parallelism, max_parallelism=8)


def filled() -> SubtaskState:
    state = state_of()
    for number in range(20):
        state.keyed.set_current_key(number, number % 8)
        state.keyed.value("a").update(number)
        state.keyed.list("b").add("x" * number)
    state.operator.put("position", [17])
    return state


def contents(state: SubtaskState) -> list[Any]:
    operator = [(name, state.operator.get(name)) for name in state.operator.names]
    return [operator, list(state.keyed.value("a").items()), list(state.keyed.list("b").items())]


def test_the_parts_satisfy_the_interfaces() -> None:
    backends: list[StateBackend] = [KeyedStateBackend(range(8), 8), OperatorStateBackend()]
    snapshots: list[BackendSnapshot] = [backend.snapshot(1) for backend in backends]
    for backend, snapshot in zip(backends, snapshots, strict=True):
        backend.checkpoint_completed(1)
        backend.checkpoint_aborted(2)
        assert snapshot.handles(Writer(), 0) == []


def test_each_backend_writes_one_file_with_a_handle_for_each_state() -> None:
    writer = Writer()
    handles = filled().snapshot().handles(writer, 0)
    assert [(handle.kind, handle.name) for handle in handles] == [
        (StateKind.KEYED, "a"),
        (StateKind.KEYED, "b"),
        (StateKind.OPERATOR, "position"),
    ]
    assert writer.written == {
        "chk-1/keyed": handles[0].size + handles[1].size,
        "chk-1/operator": handles[2].size,
    }
    assert [handle.offset for handle in handles] == [0, handles[0].size, 0]
    assert {handle.inline for handle in handles} == {None}


def test_little_state_is_inlined_up_to_the_limit() -> None:
    writer = Writer()
    sizes = [handle.size for handle in filled().snapshot().handles(writer, 1 << 20)]
    assert writer.written == {}
    keyed = sizes[0] + sizes[1]
    assert {handle.file for handle in filled().snapshot().handles(writer, keyed)} == {None}
    assert sum(handle.file is None for handle in filled().snapshot().handles(writer, keyed - 1)) == 1


@pytest.mark.parametrize("inline_up_to", [0, 1 << 20])
def test_state_comes_back(inline_up_to: int) -> None:
    writer, state = Writer(), filled()
    snapshot = state.snapshot()
    expected = contents(state)
    state.keyed.value("a").update("later")
    state.operator.put("position", [])
    handles = snapshot.handles(writer, inline_up_to)
    again = state_of()
    again.restore(handles, HandleReader(writer.storage))
    assert contents(again) == expected
    assert contents(state) != expected


def test_another_parallelism_takes_its_key_groups() -> None:
    writer = Writer()
    handles = filled().snapshot().handles(writer, 0)
    parts = [state_of(subtask, 3) for subtask in range(3)]
    for part in parts:
        part.restore(handles, HandleReader(writer.storage))
    keys = [sorted(key for key, _ in part.keyed.value("a").items()) for part in parts]
    assert sorted(key for some in keys for key in some) == list(range(20))
    assert [{key % 8 for key in some} for some in keys] == [{0, 1, 2}, {3, 4, 5}, {6, 7}]


def test_handles_of_several_subtasks_add_up() -> None:
    writer = Writer()
    handles = [handle for _ in range(2) for handle in filled().snapshot().handles(writer, 1 << 20)]
    state = state_of()
    state.restore(handles, HandleReader(writer.storage))
    assert state.operator.get("position") == [17, 17]
    assert len(list(state.keyed.value("a").items())) == 20


def test_channel_state_is_left_alone() -> None:
    state = state_of()
    handle = StateHandle(kind=StateKind.INPUT_CHANNEL, size=3, inline=b"abc")
    state.restore([handle], HandleReader(MemoryStorage()))
    assert state.snapshot().handles(Writer(), 0) == []


def test_a_snapshot_is_released_however_storing_it_ends() -> None:
    writer, state = Writer(), filled()
    writer.full = True
    with pytest.raises(StorageError, match="no space is left"):
        state.snapshot().handles(writer, 0)
    tables = [table for _, table in state.keyed._tables.values()]
    assert [len(table._open) for table in [*tables, state.operator._states]] == [0, 0, 0]
    snapshot = state.snapshot()
    snapshot.release()
    snapshot.release()
    assert [len(table._open) for table in tables] == [0, 0]
    with pytest.raises(RuntimeError, match="a snapshot was read after it had been released"):
        snapshot.handles(writer, 0)


def test_operator_state_is_lists() -> None:
    operator = OperatorStateBackend()
    assert operator.get("p") == []
    values = [1, [2]]
    operator.put("p", values)
    values.append(3)
    operator.get("p").append(4)
    operator.put("q", [])
    assert (operator.get("p"), operator.names) == ([1, [2]], ["p"])
    snapshot = operator.snapshot()
    operator.put("p", [5])
    operator.put("q", [6])
    (handle,) = snapshot.handles(Writer(), 100)
    assert (handle.name, handle.inline) == ("p", bytes.fromhex("92019102"))
    operator.put("p", [{3}])
    with pytest.raises(StateError, match="operator state 'p': a value of type set cannot be stored as state"):
        operator.snapshot().handles(Writer(), 100)


def test_operator_state_that_is_no_list_is_refused() -> None:
    handle = StateHandle(kind=StateKind.OPERATOR, name="p", size=1, inline=b"\x01")
    with pytest.raises(StateError, match="the operator state 'p' in the checkpoint is not a list"):
        OperatorStateBackend().restore([handle], HandleReader(MemoryStorage()))


@pytest.mark.parametrize(
    "values", [[1], [["a"]], [[["unhashable"], 1]]], ids=["number", "key without value", "list as key"]
)
def test_broadcast_state_that_is_no_pairs_is_refused(values: list[Any]) -> None:
    data = encode_value(values)
    handle = StateHandle(
        kind=StateKind.OPERATOR,
        name="p",
        size=len(data),
        inline=data,
        redistribution=Redistribution.BROADCAST,
    )
    with pytest.raises(
        StateError,
        match=r"operator state 'p' is a broadcast state, but its stored values are not \(key, value\) "
        "pairs",
    ):
        OperatorStateBackend().restore([handle], HandleReader(MemoryStorage()))


def test_a_reader_of_handles_checks_their_size_and_reads_a_file_once() -> None:
    storage = MemoryStorage()
    file = storage.write(1, "a", b"abcdef")
    read = HandleReader(storage)
    handle = StateHandle(kind=StateKind.KEYED, name="n", size=2, file=file, offset=1)
    assert read(handle) == b"bc"
    storage.delete([file])
    assert read(StateHandle(kind=StateKind.KEYED, size=3, file=file, offset=3)) == b"def"
    with pytest.raises(
        DamagedFileError, match="chk-1/a does not contain the 4 bytes of keyed state 'n' that belong there"
    ):
        read(StateHandle(kind=StateKind.KEYED, name="n", size=4, file=file, offset=3))
    with pytest.raises(
        DamagedFileError,
        match="the metadata does not contain the 2 bytes of operator state 'o' that belong there",
    ):
        read(StateHandle(kind=StateKind.OPERATOR, name="o", size=2, inline=b"a"))


def test_numbers_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match="the operator index 3 must be from 0 to "):
        state_of(3, 3)


def test_a_clock_that_goes_on_from_several_subtasks_is_at_the_latest_of_their_times() -> None:
    for reached in ([9000, 4000], [4000, 9000], [9000, 9000, 100]):
        clock = EventClock(lambda: 0.5)
        for reached_ms in reached:
            clock.go_on_from(reached_ms)
        assert clock.now_ms == 9000


def test_state_that_two_subtasks_had_is_as_old_in_the_run_that_goes_on() -> None:
    writer, handles = Writer(), list[StateHandle]()
    ttl = StateTtlConfig(10.0)
    for subtask, stored_at in ((0, 8.0), (1, 3.0)):  # as both say how late it was, the later one counts
        now = [0.0]
        state = SubtaskState("count", subtask, 2, 8, now=partial(now.__getitem__, 0))
        for key in range(8):
            if key in key_group_range(8, 2, subtask):
                state.keyed.set_current_key(key, key)
                state.keyed.value("v", ttl=ttl).update(key)
        now[0] = stored_at
        handles += state.snapshot(1).handles(writer, 1 << 20)
    now = [0.0]
    restored = SubtaskState("count", 0, 1, 8, now=partial(now.__getitem__, 0))
    restored.restore(handles, HandleReader(writer.storage))
    left = []
    for now[0] in (1.5, 2.5):  # 9.5 s and 10.5 s after the update
        restored.keyed.set_current_key(3, 3)
        left.append(restored.keyed.value("v", ttl=ttl).get())
    assert left == [3, None]
