from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    HandleReader,
    KeyedStateBackend,
    MemoryStorage,
    StateError,
    StateHandle,
    StateKind,
    StoredFile,
)
from netstack.state.keyed_state import decode_table, encode_table
from netstack.state.value_encoding import encode_value

ALL = range(8)


def backend(groups: range = ALL) -> KeyedStateBackend:
    return KeyedStateBackend(groups, 8)


def write(name: str, data: bytes, *, shared: bool = False) -> StoredFile:
    raise AssertionError("everything is inlined")


def handles_of(keyed: KeyedStateBackend) -> list[StateHandle]:
    return keyed.snapshot().handles(write, 1 << 20)


def restored(handles: list[StateHandle], groups: range = ALL) -> KeyedStateBackend:
    keyed = backend(groups)
    keyed.restore(handles, HandleReader(MemoryStorage()))
    return keyed


def contents(handles: list[StateHandle]) -> dict[str, list[tuple[bytes, Any]]]:
    return {handle.name: decode_table(handle.inline or b"")[1] for handle in handles}


def test_value_state() -> None:
    keyed = backend()
    state = keyed.value("v", default=[])
    keyed.set_current_key("a", 0)
    assert state.get() == []
    state.get().append(1)
    assert state.get() == []
    state.update(5)
    keyed.set_current_key("b", 0)
    assert state.get() == []
    state.update(False)
    keyed.set_current_key("a", 0)
    assert state.get() == 5
    state.update(None)
    assert list(state.items()) == [("b", False)]
    keyed.set_current_key("b", 0)
    state.clear()
    state.clear()
    assert list(state.items()) == []


def test_list_state() -> None:
    keyed = backend()
    state = keyed.list("l")
    keyed.set_current_key(1, 3)
    assert state.get() == []
    state.add("x")
    state.add_all(["y", "z"])
    assert state.get() == ["x", "y", "z"]
    state.add_all([])
    state.update(["q"])
    assert state.get() == ["q"]
    state.update([])
    assert list(state.items()) == []
    state.add_all([])
    assert list(state.items()) == []


def test_reducing_state() -> None:
    keyed = backend()
    state = keyed.reducing("r", max)
    keyed.set_current_key(1, 3)
    assert state.get() is None
    for value in (2, 7, 5):
        state.add(value)
    assert state.get() == 7
    state.clear()
    assert state.get() is None


def test_aggregating_state() -> None:
    def add(accumulator: list[int], value: int) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    keyed = backend()
    state = keyed.aggregating("mean", lambda: [0, 0], add, lambda both: both[0] / both[1])
    keyed.set_current_key(1, 3)
    assert state.get() is None
    state.add(1)
    state.add(2)
    assert state.get() == 1.5
    assert list(state.items()) == [(1, 1.5)]


def test_items_come_by_key_group_and_leave_the_current_key() -> None:
    keyed = backend()
    state = keyed.value("v")
    for key, group in (("b", 5), ("c", 0), ("a", 5), ((1, "t"), 2)):
        keyed.set_current_key(key, group)
        state.update(group)
    assert list(state.items()) == [("c", 0), ((1, "t"), 2), ("a", 5), ("b", 5)]
    assert state.get() == 2


def test_keys_of_different_types_are_different_keys() -> None:
    keyed = backend()
    state = keyed.value("v")
    keys: list[Any] = [1, 1.0, True, "1", b"1", (1,), [1], None]
    for place, key in enumerate(keys):
        keyed.set_current_key(key, 0)
        state.update(place)
    for place, key in enumerate(keys):
        keyed.set_current_key(key, 0)
        assert state.get() == place


def test_mistakes() -> None:
    keyed = KeyedStateBackend(range(2, 4), 8)
    state = keyed.value("v")
    with pytest.raises(StateError, match="keyed state was used before a key was set"):
        state.update(1)
    for group in (1, 4):
        with pytest.raises(
            StateError,
            match=f"key group {group} does not belong to this subtask, which has the key groups 2 to 3",
        ):
            keyed.set_current_key("a", group)
    with pytest.raises(StateError, match="a value of type set cannot be stored as state"):
        keyed.set_current_key({1}, 2)
    with pytest.raises(
        StateError, match="state 'v' has the kind value, so it cannot be used with the kind list"
    ):
        keyed.list("v")
    keyed.set_current_key("a", 2)
    state.update({1, 2})
    snapshot = keyed.snapshot()
    with pytest.raises(StateError, match="state 'v': a value of type set cannot be stored as state"):
        snapshot.handles(write, 0)
    state.update(7)
    assert len(handles_of(keyed)) == 1


def test_the_same_name_is_the_same_state() -> None:
    keyed = backend()
    keyed.set_current_key("a", 0)
    keyed.value("v").update(1)
    assert keyed.value("v", default=9).get() == 1


def test_bytes_do_not_depend_on_the_order_of_writing() -> None:
    def filled(order: list[int]) -> KeyedStateBackend:
        keyed = backend()
        for number in order:
            keyed.set_current_key(f"key {number}", number % 8)
            keyed.value(f"state {number % 3}").update(number)
        return keyed

    numbers = list(range(50))
    first = handles_of(filled(numbers))
    assert handles_of(filled(numbers[::-1])) == first
    assert [handle.name for handle in first] == ["state 0", "state 1", "state 2"]
    assert {handle.key_groups for handle in first} == {(0, 7)}
    assert handles_of(restored(first)) == first


def test_a_table_is_pinned() -> None:
    keyed = KeyedStateBackend(range(300, 302), 512)
    keyed.set_current_key("k", 300)
    keyed.value("v").update([1])
    data = handles_of(keyed)[0].inline
    assert data is not None
    assert data.hex() == "9301" + "a576616c7565" + "92" + "c404" + "012c" + "a16b" + "9101"


def test_states_without_entries_are_left_out() -> None:
    keyed = backend()
    keyed.set_current_key("a", 0)
    keyed.value("v").update(1)
    keyed.value("v").clear()
    keyed.list("l")
    assert handles_of(keyed) == []


def test_key_groups_find_their_subtask_again() -> None:
    keyed = backend()
    for group in ALL:
        keyed.set_current_key(group, group)
        keyed.value("v").update(group * 10)
    halves = [restored(handles_of(keyed), groups) for groups in (range(3), range(3, 8))]
    assert [[key for key, _ in half.value("v").items()] for half in halves] == [[0, 1, 2], [3, 4, 5, 6, 7]]
    whole = restored([handle for half in halves for handle in handles_of(half)])
    assert contents(handles_of(whole)) == contents(handles_of(keyed))


def test_handles_of_other_key_groups_are_not_even_read() -> None:
    handle = handles_of(backend_with_a_key_in(0))[0]

    def read(handle: StateHandle) -> bytes:
        raise AssertionError("it is not needed")

    other = KeyedStateBackend(range(4, 8), 8)
    other.restore([StateHandle(kind=handle.kind, size=1, inline=b"x", key_groups=(0, 3))], read)
    assert handles_of(other) == []


def backend_with_a_key_in(group: int) -> KeyedStateBackend:
    keyed = backend()
    keyed.set_current_key("a", group)
    keyed.value("v").update(1)
    return keyed


def test_restored_state_has_its_kind_and_is_kept_if_nobody_asks_for_it() -> None:
    handles = handles_of(backend_with_a_key_in(1))
    again = restored(handles)
    assert handles_of(again) == handles
    with pytest.raises(
        StateError, match="state 'v' has the kind value, so it cannot be used with the kind reducing"
    ):
        again.reducing("v", max)


NO_KEYS: list[Any] = [[1, "value", [key, 2]] for key in (5, "key", None, [0, 1, 2], b"", b"\0")]


@pytest.mark.parametrize(
    "value", [1, [2, "value", []], [1, 5, []], [1, "value", [b"k"]], [1, "value"], *NO_KEYS]
)
def test_bytes_of_something_else_are_refused(value: Any) -> None:
    with pytest.raises(
        StateError, match="the stored keyed state is damaged: it cannot be read as keys and values"
    ):
        decode_table(encode_value(value))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("list", 5),
        ("list with time-to-live", [1]),
        ("list with time-to-live", [[1, "now"]]),
        ("value with time-to-live", 1),
        ("map with time-to-live", [1, 2, 3]),
    ],
)
def test_values_that_a_kind_of_state_does_not_have_are_refused(kind: str, value: Any) -> None:
    key = b"\0\1k" + (b"\1" + (1).to_bytes(4) if kind.startswith("map") else b"")
    data = encode_table(kind, [(key, encode_value(value))])
    assert data is not None
    handle = StateHandle(kind=StateKind.KEYED, name="s", size=len(data), inline=data)
    with pytest.raises(
        StateError, match=r"state 's' is of kind .*, but one of its stored values has another form"
    ):
        restored([handle])


Step = Callable[[KeyedStateBackend, int, int], None]

STEPS: dict[str, Step] = {
    "update": lambda keyed, key, value: keyed.value("value", 0).update({"n": [value]}),
    "change": lambda keyed, key, value: _change(keyed, value),
    "clear": lambda keyed, key, value: keyed.value("value").clear(),
    "append": lambda keyed, key, value: keyed.list("list").add(value),
    "clear list": lambda keyed, key, value: keyed.list("list").clear(),
    "reduce": lambda keyed, key, value: keyed.reducing("sum", lambda a, b: a + b).add(value),
    "aggregate": lambda keyed, key, value: keyed.aggregating("all", list, _appended, len).add(value),
}


def _change(keyed: KeyedStateBackend, value: int) -> None:
    state = keyed.value("value")
    kept = state.get()
    if kept is not None:
        kept["n"].append(value)  # in place, as a function may with what it has just got
        state.update(kept)


def _appended(accumulator: list[int], value: int) -> list[int]:
    accumulator.append(value)
    return accumulator


STEP = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3), st.integers(0, 9))
ACTION = STEP | st.just("snapshot") | st.just("write") | st.just("release")


@given(st.lists(ACTION, max_size=60))
def test_a_snapshot_that_is_written_later_is_the_state_of_its_moment(actions: list[Any]) -> None:
    keyed, waiting = backend(), list[tuple[Any, list[StateHandle]]]()
    steps: list[tuple[str, int, int]] = []
    for action in actions:
        if action == "snapshot":
            replayed = backend()  # the model: the same steps again, and stored at once
            _play(replayed, steps)
            waiting.append((keyed.snapshot(), handles_of(replayed)))
        elif action == "write" and waiting:
            snapshot, expected = waiting.pop(len(waiting) // 2)
            assert snapshot.handles(write, 1 << 20) == expected
        elif action == "release" and waiting:
            waiting.pop(0)[0].release()
        elif isinstance(action, tuple):
            steps.append(action)
            _play(keyed, [action])
    for snapshot, expected in waiting:
        assert snapshot.handles(write, 1 << 20) == expected


def _play(keyed: KeyedStateBackend, steps: list[tuple[str, int, int]]) -> None:
    for name, key, value in steps:
        keyed.set_current_key(key, key)
        STEPS[name](keyed, key, value)
