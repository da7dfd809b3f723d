"""The kinds of keyed state, with a time-to-live and without, on all backends, beside a model with times."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol import SavepointFormat
from netstack import (
    HandleReader,
    KeyedStateBackend,
    MemoryStorage,
    StateError,
    StateHandle,
    StateTtlConfig,
    StoredFile,
    SubtaskState,
    TableOptions,
)
from netstack.state.state_kinds import CopyOnWriteMaps, entry_key, parts_of
from netstack.state.subtask_state import ChangelogTerms
from netstack.state.table_backend import TableSettings, TableStateBackend
from tests.netstack.table_model import ModelStores

GROUPS = 4
BACKENDS = ("memory", "tables", "changelog", "changelog in files", "changelog over tables")
HALVES = (range(2), range(2, GROUPS))


class Task:
    """The state of a subtask on one of the backends, at a time that tests set, and its checkpoints."""

    def __init__(
        self, backend: str, ttl: StateTtlConfig | None = None, *, subtask: int = 0, parallelism: int = 1
    ) -> None:
        self.backend = backend
        self.ttl = ttl
        self.place = subtask, parallelism
        self.storage = MemoryStorage()
        self.now = 0.0
        self.checkpoint = self.files = 0
        self.handles: list[StateHandle] = []
        self.state = self.new()

    def new(self) -> SubtaskState:
        changelog = tables = None
        if "changelog" in self.backend:
            changelog = ChangelogTerms("files" in self.backend, lambda files: None)
        if "tables" in self.backend:
            tables = TableSettings(ModelStores(), TableOptions(level0_files=2), incremental=True)
        return SubtaskState("v", *self.place, GROUPS, None, changelog, tables, lambda: self.now)

    def at(self, key: Any) -> KeyedStateBackend:
        self.state.keyed.set_current_key(key, len(repr(key)) % GROUPS)
        return self.state.keyed

    def write(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        self.files += 1
        return self.storage.write(self.checkpoint, f"{self.files}-{name}", data, shared=shared)

    def stored(self, layout: SavepointFormat | None = None) -> list[StateHandle]:
        self.checkpoint += 1
        return self.state.snapshot(self.checkpoint, layout).handles(self.write, 0)

    def restart(self, handles: list[StateHandle]) -> None:
        self.state.close()
        self.state = self.new()
        self.state.restore(handles, HandleReader(self.storage))

    def materialise(self) -> None:
        if self.state.changelog is not None:
            begun = self.state.changelog.materialise()
            if begun is not None:
                self.checkpoint += 1
                self.state.changelog.materialised(begun.sequence, begun.snapshot.handles(self.write, 0))

    def compact(self) -> None:
        keyed = self.state.keyed
        if isinstance(keyed, TableStateBackend):
            keyed.drop_expired()
            keyed.store.flush()
            keyed.store.compact()


def test_map_state() -> None:
    for backend in BACKENDS:
        task = Task(backend)
        state = task.at("a").map("m")
        assert (state.is_empty, state.get(1), list(state.entries())) == (True, None, [])
        state.put_all({"z": [1], 300: "x", 2: "y", (1,): 0, b"\0": b""})
        state.put("gone", 1)
        state.put("gone", None)
        task.at("ab")
        state.put(2, "other")
        task.at("a")
        assert list(state.keys()) == [2, "z", b"\0", 300, (1,)]
        assert list(state.values()) == ["y", [1], b"", "x", 0]
        assert (2 in state, 3 in state, state.is_empty) == (True, False, False)
        state.remove(2)
        state.remove(3)
        task.restart(task.stored())
        state = task.at("a").map("m")
        assert {key: dict(kept) for key, kept in state.items()} == {
            "a": {"z": [1], (1,): 0, 300: "x", b"\0": b""},
            "ab": {2: "other"},
        }
        for key, _ in state.entries():
            state.remove(key)
        assert state.is_empty
        task.at("ab")
        state.put(3, "another")
        state.clear()
        assert list(state.items()) == []


@pytest.mark.parametrize("into", BACKENDS[:3])
@pytest.mark.parametrize("backend", BACKENDS[:3])
def test_a_canonical_savepoint_of_any_backend_is_restored_by_any_other_by_key_group(
    backend: str, into: str
) -> None:
    task, maps = Task(backend), {10**key: {f"k{number}": number for number in range(9)} for key in range(8)}
    for key, kept in maps.items():
        task.at(key).map("m").put_all(kept)
    handles = task.stored(SavepointFormat.CANONICAL)
    restored: list[dict[Any, Any]] = []
    for subtask, groups in enumerate(HALVES):
        half = Task(into, subtask=subtask, parallelism=2)
        half.storage = task.storage
        half.restart(handles)
        restored.append({key: dict(kept) for key, kept in half.state.keyed.map("m").items()})
        assert {len(repr(key)) % GROUPS for key in restored[-1]} == set(groups)
    assert restored[0] | restored[1] == maps


def test_names_of_entries_are_told_apart() -> None:
    for key, in_map in ((b"\0\1key", b"user"), (b"\0\1", b""), (b"\0\1key", b"\0" * 300)):
        assert parts_of(entry_key(key, in_map)) == (key, in_map)
    with pytest.raises(StateError, match="an entry of map state has a damaged key"):
        parts_of(b"\0\1\0\0\0\xff")
    with pytest.raises(StateError, match="an entry of map state has a damaged key"):
        parts_of(b"ab")


def test_rows_of_a_map_lie_by_key_group_key_and_key_in_the_map() -> None:
    task = Task("memory")
    task.state.keyed.set_current_key("k", 3)
    task.state.keyed.map("m").put(7, [1])
    (handle,) = task.state.snapshot().handles(task.write, 1 << 20)
    row = "0003" + "a16b" + "07" + "00000001"
    assert handle.inline is not None
    assert handle.inline.hex() == "9301" + "a36d6170" + "92" + "c409" + row + "9101"


def test_a_map_entry_is_one_row_of_its_own_in_a_snapshot_that_is_written_later() -> None:
    task = Task("memory")
    state = task.at("a").map("m")
    state.put_all({1: [1], 2: [2]})
    snapshot = task.state.snapshot(1)
    state.get(1).append(9)  # type: ignore[union-attr]
    state.remove(2)
    state.put(3, 3)
    task.restart(snapshot.handles(task.write, 0))
    assert dict(task.at("a").map("m").entries()) == {1: [1], 2: [2]}


def test_the_rows_of_a_key_are_forgotten_with_it() -> None:
    task = Task("memory")
    state = task.at("a").map("m")
    state.put_all({1: 1, 2: 2})
    rows = cast(CopyOnWriteMaps, task.state.keyed._maps["m"])
    state.remove(1)
    assert len(list(rows.beginning_with(b"\0\3\xa1a"))) == 1
    state.clear()
    assert rows._of_keys == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restored_row_says_the_key_group_of_its_key(backend: str) -> None:
    task = Task(backend)
    task.at("a").map("m").put(1, 1)
    handles = task.stored()
    task.restart(handles)
    if backend != "tables":  # which takes its files over without a look at the keys
        with pytest.raises(StateError, match="the key 'a' arrived with the key groups 3 and 2"):
            task.state.keyed.set_current_key("a", 2)


def test_keys_that_are_too_long_for_a_row_are_refused() -> None:
    state = Task("memory").at("a").map("m")
    with pytest.raises(StateError, match="map state have 70013 bytes together; at most 65535 are allowed"):
        state.put("x" * 70000, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (("soon",), "a time-to-live of 'soon' is not a duration; give seconds or a text such as '30 min'"),
        ((float("nan"),), "a time-to-live of nan is not a duration"),
        ((0,), "a time-to-live of 0 is too short; give at least a millisecond"),
        (
            (1, "on read"),
            "time-to-live: update_type 'on read' is unknown; it must be 'on create and write' or",
        ),
        (
            (1, "on read and write", "never"),
            "time-to-live: visibility 'never' is unknown; it must be 'never return expired' or",
        ),
    ],
)
def test_a_wrong_time_to_live_is_refused(config: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        StateTtlConfig(*config)


def test_a_time_to_live_is_a_number_of_seconds_or_a_duration() -> None:
    assert (StateTtlConfig(1.5).ttl_ms, StateTtlConfig("2 min").ttl_ms) == (1500, 120000)


def test_state_with_and_without_a_time_to_live_is_not_the_same() -> None:
    task = Task("memory")
    task.at("a").value("v").update(1)
    with pytest.raises(
        StateError,
        match="state 'v' has the kind value, so it cannot be used with the kind value with time-to-live",
    ):
        task.state.keyed.value("v", ttl=StateTtlConfig(1))
    with pytest.raises(
        StateError, match="state 'w' has a time-to-live, but this backend was created without a clock"
    ):
        KeyedStateBackend(range(4), 4).value("w", ttl=StateTtlConfig(1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_expired_values_may_be_seen_once_where_that_is_allowed(backend: str) -> None:
    task = Task(backend)
    ttl = StateTtlConfig(1, visibility="return expired if not cleaned up")
    for name in ("seen", "not seen"):
        task.at("a").map(name, ttl=ttl).put(1, "x")
    task.now = 0.999
    assert task.at("a").map("seen", ttl=ttl).get(1) == "x"
    task.now = 1.0
    if "tables" in backend:  # in memory any use of the state may clean it
        assert [task.at("a").map("seen", ttl=ttl).get(1) for _ in range(2)] == ["x", None]
    task.compact()
    task.materialise()
    task.restart(task.stored())
    if backend != "changelog" and backend != "changelog in files":
        assert task.at("a").map("not seen", ttl=ttl).get(1) is None


def test_time_to_live_goes_on_in_another_run() -> None:
    task = Task("memory")
    ttl = StateTtlConfig(1)
    for run in range(3):
        task.now = 100.0 - 30 * run
        task.at(run).value("v", ttl=ttl).update(1)
        task.now += 0.6
        handles = task.stored()
        task.now = 0.0
        task.restart(handles)
        state = task.at(run).value("v", ttl=ttl)
        task.now = 0.3
        assert state.get() == 1
        task.now = 0.41
        assert state.get() is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_expired_is_not_stored_for_ever(backend: str) -> None:
    task, ttl = Task(backend), StateTtlConfig(1)
    for key in range(200):
        task.at(key).map("map", ttl=ttl).put(key, "x" * 100)
        task.at(key).list("list", ttl=ttl).add("x" * 100)
        task.at(key).list("list", ttl=ttl).add("y" * 100)
    task.materialise()
    before = sum(handle.size for handle in task.stored())
    task.now = 0.9
    task.at(7).list("list", ttl=ttl).add("z")
    task.now = 1.5
    task.compact()
    task.materialise()
    after = sum(handle.size for handle in task.stored())
    assert before > 60000
    assert after < 2000
    task.restart(task.stored())
    assert task.at(7).list("list", ttl=ttl).get() == ["z"]


@pytest.mark.parametrize("expired", [True, False])
def test_memory_is_cleaned_while_the_state_is_used(expired: bool) -> None:
    task, ttl = Task("memory"), StateTtlConfig(1)
    for key in range(100):
        task.at(key).value("v", ttl=ttl).update(key)
    task.now = 1.5 if expired else 0.5
    for _ in range(60):
        task.at("other").value("v", ttl=ttl).get()
    assert len(task.state.keyed._maps["v"]) == (0 if expired else 100)


class Model:
    """Expected contents of the states with the times of their updates; reads and writes return them."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl_ms = 10**9 if ttl is None else ttl.ttl_ms
        self.on_read = ttl is not None and ttl.update_type == "on read and write"
        self.kept: dict[Any, list[tuple[Any, int]]] = {}  # by state and key; lists have several

    def read(self, place: Any, now_ms: int) -> list[Any]:
        alive = [(value, at) for value, at in self.kept.get(place, []) if at + self.ttl_ms > now_ms]
        self.kept[place] = [(value, now_ms) for value, _ in alive] if self.on_read else alive
        return [value for value, _ in alive]

    def step(self, name: str, key: int, other: int, value: int, now_ms: int) -> Any:
        kind, does = name.split()
        place = (kind, key, other) if kind == "map" else (kind, key)
        if does == "clear":
            for each in [each for each in self.kept if each[:2] == (kind, key)]:
                del self.kept[each]
        elif does == "remove":
            self.kept.pop(place, None)
        elif does == "all":
            places = sorted(each for each in self.kept if each[:2] == (kind, key))
            return [(each[2], found[0]) for each in places if (found := self.read(each, now_ms))]
        elif does == "get":
            found = self.read(place, now_ms)
            return found if kind in ("list", "aggregating") else (found[0] if found else None)
        elif does == "set":
            self.kept[place] = [(value, now_ms)]
        elif does == "add" and kind == "reducing":
            self.kept[place] = [(sum(self.read(place, now_ms)) + value, now_ms)]
        elif does == "add" and kind == "list":
            self.kept.setdefault(place, []).append((value, now_ms))
        else:  # an accumulator as a whole has one time
            self.kept[place] = [(each, now_ms) for each in [*self.read(place, now_ms), value]]
        return None


def step(task: Task, name: str, key: int, other: int, value: int) -> Any:
    keyed, ttl = task.at(key), task.ttl
    match name.split():
        case ["value", does]:
            of_value = keyed.value("value", ttl=ttl)
            calls = {"get": of_value.get, "set": lambda: of_value.update(value)}
            return (calls | {"clear": of_value.clear})[does]()
        case ["list", does]:
            of_list = keyed.list("list", ttl=ttl)
            calls = {"get": of_list.get, "set": lambda: of_list.update([value]), "clear": of_list.clear}
            return (calls | {"add": lambda: of_list.add(value)})[does]()
        case ["map", does]:
            of_map = keyed.map("map", ttl=ttl)
            return {
                "get": lambda: of_map.get(other),
                "all": lambda: list(of_map.entries()),
                "set": lambda: of_map.put(other, value),
                "remove": lambda: of_map.remove(other),
                "clear": of_map.clear,
            }[does]()
        case ["reducing", does]:
            reducing = keyed.reducing("reducing", lambda left, right: left + right, ttl=ttl)
            return {"get": reducing.get, "add": lambda: reducing.add(value), "clear": reducing.clear}[does]()
        case ["aggregating", does]:
            aggregating = keyed.aggregating("aggregating", list, _appended, list, ttl=ttl)
            calls = {"get": lambda: aggregating.get() or [], "clear": aggregating.clear}
            return (calls | {"add": lambda: aggregating.add(value)})[does]()
    raise AssertionError(name)


def _appended(accumulator: list[int], value: int) -> list[int]:
    accumulator.append(value)
    return accumulator


WRITE_AND_READ = [
    ("value set", "value get"),
    ("list add", "list get"),
    ("map set", "map get"),
    ("map set", "map all"),
    ("reducing add", "reducing get"),
    ("aggregating add", "aggregating get"),
]


@pytest.mark.parametrize(("write", "read"), WRITE_AND_READ)
@pytest.mark.parametrize("backend", BACKENDS)
def test_reading_begins_the_time_anew_if_that_is_asked_for(backend: str, write: str, read: str) -> None:
    seen = []
    for config in (StateTtlConfig(1), StateTtlConfig(1, "on read and write")):
        task = Task(backend, config)
        step(task, write, 1, 2, 3)
        task.now = 0.9
        assert step(task, read, 1, 2, 0)
        task.restart(task.stored())
        task.now = 1.8
        seen.append(bool(step(task, read, 1, 2, 0)))
    assert seen == [False, True]


def seen(task: Task, kind: str) -> list[int]:
    """Return the values of key 1; of the map those of its keys 0 and 1."""
    read = step(task, f"{kind} {'all' if kind == 'map' else 'get'}", 1, 0, 0)
    if kind == "map":
        return [value for _, value in read]
    return read if isinstance(read, list) else [] if read is None else [read]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("visibility", ["never return expired", "return expired if not cleaned up"])
@pytest.mark.parametrize("update", ["on create and write", "on read and write"])
@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_read_when_a_part_has_expired_stays_expired(
    backend: str, kind: str, update: Any, visibility: Any, restarts: bool
) -> None:
    """Two values are written at 0 s and 0.5 s, and read at 1.2 s, when the first one has expired. Reading may
    renew the second one, which then lives at 1.6 s, but never the first one.
    """
    task = Task(backend, StateTtlConfig(1, update, visibility))
    parts = kind in ("list", "map")  # with a time of their own
    for at, place, value in ((0.0, 0, 3), (0.5, 1, 4)):
        task.now = at
        step(task, f"{kind} {'set' if kind in ('value', 'map') else 'add'}", 1, place, value)
    whole = {"value": [4], "reducing": [7], "aggregating": [3, 4]}.get(kind, [])
    task.now = 1.2
    first = seen(task, kind)
    assert (first[-1:] if parts else first) == ([4] if parts else whole)
    assert visibility != "never return expired" or first == ([4] if parts else whole)
    if restarts:
        task.restart(task.stored())
    task.now = 1.6
    renewed = update == "on read and write"
    left = ([4] if parts else whole) if renewed else []
    again = seen(task, kind)
    assert again == left or (visibility != "never return expired" and not renewed)
    task.now = 2.7
    if renewed and visibility == "never return expired":
        assert seen(task, kind) == []


NAMES = [
    *(f"value {does}" for does in ("get", "set", "clear")),
    *(f"list {does}" for does in ("get", "set", "add", "clear")),
    *(f"map {does}" for does in ("get", "all", "set", "remove", "clear")),
    *(f"{kind} {does}" for kind in ("reducing", "aggregating") for does in ("get", "add", "clear")),
]
STEP = st.tuples(st.sampled_from(NAMES), st.integers(0, 1), st.integers(0, 1), st.integers(0, 9))
PASS = st.sampled_from([1, 300, 700, 999, 1000])
OTHER = st.sampled_from(["snapshot", "write", "complete", "abort", "restart", "materialise", "compact"])
CONFIGS = st.sampled_from([None, StateTtlConfig("1 s"), StateTtlConfig(1, "on read and write")])


@settings(max_examples=200)
@given(st.sampled_from(BACKENDS), CONFIGS, st.lists(STEP | STEP | PASS | OTHER, min_size=30, max_size=80))
def test_all_kinds_are_what_a_model_says(
    backend: str, ttl: StateTtlConfig | None, actions: list[Any]
) -> None:
    task, model = Task(backend, ttl), Model(ttl)
    open_, written, completed = list[Any](), list[Any](), ([], Model(ttl))
    for action in actions:
        if isinstance(action, tuple):
            assert step(task, *action) == model.step(*action, round(task.now * 1000))
        elif isinstance(action, int):
            task.now += action / 1000
        elif action == "snapshot":
            task.checkpoint += 1
            number = task.checkpoint
            open_.append((number, task.state.snapshot(number), copy.deepcopy(model)))
        elif action == "write" and open_:
            number, snapshot, then = open_.pop(0)
            written.append((number, snapshot.handles(task.write, 0), then))
        elif action == "complete" and written:
            number, handles, then = written.pop(0)
            task.state.checkpoint_completed(number)
            completed = handles, then
        elif action == "abort" and written:
            task.state.checkpoint_aborted(written.pop(0)[0])
        elif action == "restart":
            for _, snapshot, _ in open_:
                snapshot.release()
            open_, written = [], []
            task.restart(completed[0])
            model = copy.deepcopy(completed[1])
        elif action == "materialise":
            task.materialise()
        elif action == "compact":
            task.compact()
    now_ms = round(task.now * 1000)
    for key in range(2):
        for name in ("value get", "list get", "map all", "reducing get", "aggregating get"):
            assert step(task, name, key, 0, 0) == model.step(name, key, 0, 0, now_ms)
