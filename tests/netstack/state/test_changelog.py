"""State that is stored as its changes: what a checkpoint holds, what it rests on, and whole jobs with it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netstack import (
    AtTime,
    FailUpload,
    HandleReader,
    KeyedStateBackend,
    MemoryStorage,
    StateError,
    StateHandle,
    StoredFile,
    TransactionLog,
)
from netstack.scenarios.options import ChangelogStorage, RestartStrategy, StateBackendType
from netstack.state.backend import BackendSnapshot
from netstack.state.changelog import (
    Changelog,
    ChangelogBackend,
    Materialisation,
    Operation,
    changes_in,
    restore_logged,
)
from netstack.state.handles import StateFormat
from netstack.state.state_kinds import StateKind
from netstack.state.table_backend import TableSettings, TableStateBackend
from netstack.state.value_encoding import encode_value
from netstack.tasks.state_work import first_delay_s
from tests.crossing import crossed
from tests.netstack.table_model import ModelStores
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES, SCHEDULES, expected, run, sums_job

GROUPS = 8
KEYS = 5


class Subject:
    """A backend with a changelog, its storage, and the checkpoints that may be restored."""

    def __init__(self, *, in_files: bool, in_tables: bool = False) -> None:
        self.storage = MemoryStorage()
        self.in_tables = in_tables
        self.in_files = in_files
        self.checkpoint = 0
        self.completed: tuple[list[StateHandle], Any] | None = None
        self.begin()

    def begin(self) -> None:
        self.keyed = KeyedStateBackend(range(GROUPS), GROUPS)
        if self.in_tables:
            tables = TableSettings(ModelStores(), incremental=True, first_checkpoint=self.checkpoint + 1)
            self.keyed = TableStateBackend("sums-0", range(GROUPS), GROUPS, None, tables)
        self.backend = ChangelogBackend(self.keyed, in_files=self.in_files, discard=self.discard)
        self.value, self.list = self.keyed.value("value"), self.keyed.list("list")

    def discard(self, files: Iterable[StoredFile]) -> None:
        needed = set() if self.completed is None else {handle.file for handle in self.completed[0]}
        self.storage.delete([file for file in files if file not in needed])

    @property
    def contents(self) -> Any:
        values = [(key, value) for key, value in self.value.items()]
        return values, [(key, list(values)) for key, values in self.list.items()]

    def change(self, what: str, key: int, number: int) -> None:
        self.keyed.set_current_key(key, key % GROUPS)
        match what:
            case "put":
                self.value.update(number)
            case "clear":
                self.value.clear()
            case "add":
                self.list.add(number)
            case "replace":
                self.list.update([number, number])

    def write(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        return self.storage.write(self.checkpoint, name, data, shared=shared)

    def take(self, outcome: str) -> list[StateHandle]:
        """Take a checkpoint, which completes or is aborted; what an aborted one has stored is deleted."""
        self.checkpoint += 1
        contents, snapshot = self.contents, self.backend.snapshot(self.checkpoint)
        self.change("put", 0, -1)  # the task goes on before the state is stored
        handles = snapshot.handles(self.write, 0)
        if outcome == "complete":
            before, self.completed = self.completed, (handles, contents)
            self.backend.checkpoint_completed(self.checkpoint)
            self.subsume([] if before is None else before[0])
        else:
            self.backend.checkpoint_aborted(self.checkpoint)
            new = [handle.file for handle in handles if not handle.stored_before]
            self.storage.delete([file for file in new if file is not None])
        return handles

    def subsume(self, handles: list[StateHandle]) -> None:
        assert self.completed is not None
        needed = {handle.file for handle in self.completed[0]}
        self.storage.delete([each.file for each in handles if each.file and each.file not in needed])

    def materialise(self) -> None:
        marked = self.backend.materialise()
        if marked is not None:
            self.change("add", 1, -2)  # meanwhile
            self.checkpoint += 1
            handles = marked.snapshot.handles(self.shared_write, 0)
            self.backend.materialised(marked.sequence, handles)

    def shared_write(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        return self.write(f"{name}-base-{self.checkpoint}", data, shared=True)

    def fail(self) -> None:
        """Begin anew from the last completed checkpoint."""
        self.backend.close()
        self.begin()
        if self.completed is not None:
            handles, contents = self.completed
            self.backend.restore(handles, HandleReader(self.storage))
            assert self.contents == contents


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["put", "clear", "add", "replace"]), st.integers(0, KEYS), st.integers(0, 9)
        ),
        st.tuples(st.sampled_from(["complete", "abort", "materialise", "fail"])),
    ),
    max_size=40,
)


@pytest.mark.parametrize("in_tables", [False, True])
@pytest.mark.parametrize("in_files", [False, True])
@given(STEPS)
@settings(deadline=None)
def test_what_is_restored_is_what_was_there(
    in_files: bool, in_tables: bool, steps: list[tuple[Any, ...]]
) -> None:
    subject = Subject(in_files=in_files, in_tables=in_tables)
    for step in (*steps, ("complete",), ("fail",)):
        match step:
            case (("complete" | "abort") as outcome,):
                subject.take(outcome)
            case ("materialise",):
                subject.materialise()
            case ("fail",):
                subject.fail()
            case _:
                subject.change(*step)
    subject.backend.close()
    assert subject.completed is not None
    needed = {handle.file.path for handle in subject.completed[0] if handle.file is not None}
    assert set(subject.storage.files) == needed, "nothing is left behind"


class Overlapping(Subject):
    """A backend whose checkpoints and materialisations go on side by side, beside a model in plain dicts."""

    def __init__(self, *, in_files: bool) -> None:
        self.model: tuple[dict[int, int], dict[int, list[int]]] = {}, {}
        self.taken: list[tuple[int, BackendSnapshot, Any]] = []
        self.written: list[tuple[int, list[StateHandle], Any]] = []
        self.marked: Materialisation | None = None
        super().__init__(in_files=in_files)

    def change(self, what: str, key: int, number: int) -> None:
        super().change(what, key, number)
        values, lists = self.model
        match what:
            case "put":
                values[key] = number
            case "clear":
                values.pop(key, None)
            case "add":
                lists.setdefault(key, []).append(number)
            case "replace":
                lists[key] = [number, number]

    def check(self) -> None:
        values, lists = self.contents
        assert (dict(values), dict(lists)) == self.model

    def do(self, what: str) -> None:
        """Take a step, unless it makes no sense now. Checkpoints are stored and end in their order."""
        if what == "snapshot":
            self.checkpoint += 1
            snapshot = self.backend.snapshot(self.checkpoint)
            self.taken.append((self.checkpoint, snapshot, copy.deepcopy(self.model)))
        elif what == "store" and self.taken:
            number, snapshot, then = self.taken.pop(0)
            self.written.append((number, snapshot.handles(self.write, 0), then))
        elif what == "complete" and self.written:
            number, handles, then = self.written.pop(0)
            before, self.completed = self.completed, (handles, then)
            self.backend.checkpoint_completed(number)
            self.subsume([] if before is None else before[0])
        elif what == "abort" and self.written:
            number, handles, _ = self.written.pop(0)
            self.backend.checkpoint_aborted(number)
            self.storage.delete([each.file for each in handles if each.file and not each.stored_before])
        elif what == "begin" and self.marked is None:
            self.marked = self.backend.materialise()
        elif what == "end" and self.marked is not None:
            marked, self.marked = self.marked, None
            self.checkpoint += 1
            self.backend.materialised(marked.sequence, marked.snapshot.handles(self.shared_write, 0))
        elif what == "restore":
            self.restore()

    def restore(self) -> None:
        for _, snapshot, _ in self.taken:
            snapshot.release()
        if self.marked is not None:
            self.marked.snapshot.release()
        self.taken, self.written, self.marked = [], [], None
        self.backend.close()
        self.begin()
        self.model = {}, {}
        if self.completed is not None:
            handles, then = self.completed
            self.backend.restore(handles, HandleReader(self.storage))
            self.model = copy.deepcopy(then)
        self.check()


CHANGE = st.tuples(
    st.sampled_from(["put", "clear", "add", "replace"]), st.integers(0, KEYS), st.integers(0, 9)
)
STEP = st.sampled_from(["snapshot", "store", "complete", "abort", "begin", "end", "restore"])


@pytest.mark.parametrize("in_files", [False, True])
@given(st.lists(CHANGE | STEP | STEP, max_size=60))
@example(
    [
        ("put", 1, 1),
        "begin",
        ("put", 2, 2),
        *("snapshot", "store", "complete"),  # its part of the log begins before the new base
        ("put", 3, 3),
        *("snapshot", "store", "complete"),  # and this part behind it
        "end",
        ("put", 4, 4),
        *("snapshot", "store", "complete", "restore"),
    ]
)
@settings(deadline=None, max_examples=300)
def test_checkpoints_lose_no_change_while_the_state_is_materialised(
    in_files: bool, steps: list[str | tuple[str, int, int]]
) -> None:
    subject = Overlapping(in_files=in_files)
    for step in (*steps, "snapshot", "store", "complete", "restore"):
        if isinstance(step, str):
            subject.do(step)
        else:
            subject.change(*step)
        subject.check()
    subject.backend.close()


def formats(handles: list[StateHandle]) -> list[tuple[StateFormat, bool]]:
    return [(handle.format, handle.stored_before) for handle in handles]


def test_a_checkpoint_is_the_base_and_the_log_since() -> None:
    subject = Subject(in_files=False)
    for number in range(100):
        subject.change("put", number, number)
    first = subject.take("complete")
    subject.materialise()
    subject.change("put", 1, 1)
    second = subject.take("complete")
    assert formats(first) == [(StateFormat.LOG, False)]
    assert formats(second)[-1] == (StateFormat.LOG, False)
    assert set(formats(second)[:-1]) == {(StateFormat.CANONICAL, True)}
    assert second[-1].size < first[0].size / 10


def test_a_log_in_files_is_stored_once() -> None:
    subject = Subject(in_files=True)
    sizes = []
    for number in range(3):
        subject.change("put", number, number)
        handles = subject.take("complete")
        sizes.append(len(handles))
        assert [handle.stored_before for handle in handles] == [True] * number + [False]
    subject.change("put", 9, 9)
    subject.take("abort")
    assert formats(subject.take("complete"))[-1] == (StateFormat.LOG, False), "an aborted one has stored none"
    assert sizes == [1, 2, 3]


def test_concurrent_checkpoints_name_only_what_each_that_may_be_the_newest_complete_one_names() -> None:
    subject = Subject(in_files=True)
    snapshots = {}
    for number in (1, 2):
        subject.change("put", number, number)
        snapshots[number] = subject.backend.snapshot(number)
    stored = {}
    for number in (1, 2):
        subject.checkpoint = number
        stored[number] = snapshots[number].handles(subject.write, 0)
    subject.backend.checkpoint_completed(1)
    subject.change("put", 3, 3)
    subject.checkpoint = 3
    third = subject.backend.snapshot(3).handles(subject.write, 0)
    assert formats(third) == [(StateFormat.LOG, False)], (
        "2 may be complete by now, and 1 deleted with its file"
    )
    subject.backend.checkpoint_completed(2)
    subject.backend.checkpoint_aborted(3)
    subject.checkpoint = 4
    subject.change("put", 4, 4)
    fourth = subject.backend.snapshot(4).handles(subject.write, 0)
    assert formats(fourth) == [(StateFormat.LOG, True), (StateFormat.LOG, False)]
    assert fourth[0].file == stored[2][0].file


def test_changes_are_of_the_size_that_flink_gives_them() -> None:
    """200 bytes for a key of 8 are 216 there: 1 for what it does, 2 for the state, 1 for the namespace."""
    log = Changelog()
    log.append(Operation.PUT, log.state("value", "v"), b"\0\1" + bytes(3), bytes(200))
    empty = len(log.since(log.end).data)
    assert len(log.since(0).data) - empty == 216


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_a_log_that_is_cut_short_is_refused(cut: int) -> None:
    log = Changelog()
    state = log.state("value", "v")
    log.append(Operation.PUT, state, b"\0\1k", "x")
    data = log.since(0).data
    with pytest.raises(StateError):
        list(changes_in(data[:cut]))
    assert [change.value for change in changes_in(data)] == ["x"]


@pytest.mark.parametrize("states", [[5], ["ab"], [["value"]], [["value", 1]], [{}], [["a", "b", "c"]]])
def test_a_log_of_states_that_are_none_is_refused(states: list[Any]) -> None:
    head = encode_value([1, states])
    with pytest.raises(StateError, match="a changelog is damaged: its entries cannot be read"):
        list(changes_in(len(head).to_bytes(4) + head))


@pytest.mark.parametrize(
    ("kind", "operation", "key", "value", "message"),
    [
        ("value", Operation.PUT, b"\0", 1, "a changelog is damaged"),
        (
            "value",
            Operation.APPEND,
            b"\0\1k",
            [1],
            "a change adds an element to state 's', but this state is of kind value",
        ),
        ("list", Operation.APPEND, b"\0\1k", {"a": 1}, ", but one of its stored values has another form"),
        ("list", Operation.PUT, b"\0\1k", 5, ", but one of its stored values has another form"),
    ],
)
def test_changes_that_a_state_cannot_have_are_refused(
    kind: str, operation: Operation, key: bytes, value: Any, message: str
) -> None:
    log = Changelog()
    log.append(operation, log.state(kind, "s"), key, value)
    keyed = KeyedStateBackend(range(8), 8)
    handle = StateHandle(
        kind=StateKind.KEYED, format=StateFormat.LOG, size=len(log.since(0).data), inline=log.since(0).data
    )
    with pytest.raises(StateError, match=message):
        restore_logged(keyed, [handle], HandleReader(MemoryStorage()))


def test_a_value_that_cannot_be_stored_is_named_with_its_state() -> None:
    subject = Subject(in_files=False)
    subject.keyed.set_current_key(1, 1)
    with pytest.raises(StateError, match="state 'value': "):
        subject.value.update(object())


def test_the_first_materialisation_is_when_flinks_is() -> None:
    """Measured: both between 14.85 and 15.0 s after the data began, of 20 s."""
    operator = "20ba6b65f97481d5570070de90e4e791"
    assert [first_delay_s(operator, index, 2, 20.0) for index in (0, 1)] == [14.845, 14.965]


LOGGED: dict[str, dict[str, Any]] = {
    "in memory": {"changelog_storage": ChangelogStorage.MEMORY},
    "in files": {"changelog_storage": ChangelogStorage.FILESYSTEM},
}
MATERIALISED = {"changelog_enabled": True, "materialize_interval_s": 0.2}


def needed_and_there(storage: MemoryStorage) -> Iterator[set[str]]:
    metadata = [storage.load(number) for number in storage.checkpoints()]
    yield {path for each in metadata for path in each.files if path.startswith("shared/")}
    yield set(storage.shared_files())


@crossed(backend=list(StateBackendType), schedule=list(SCHEDULES), storage=list(LOGGED))
def test_exactly_once_whatever_fails(storage: str, schedule: str, backend: StateBackendType) -> None:
    log, kept = TransactionLog(), MemoryStorage()
    settings = LOGGED[storage] | MATERIALISED | {"state_backend": backend}
    job = run(sums_job(log, SCHEDULES[schedule], **settings), kept, tables=ModelStores())
    assert sorted(log.records) == expected()
    if schedule not in ("none", "a cut that is survived", "sink, while the sums are out"):
        assert any(restart.checkpoint_id is not None for restart in job.restarts)
    needed, there = needed_and_there(kept)
    assert needed
    assert there == needed


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_in_all_modes(mode: str) -> None:
    log = TransactionLog()
    run(sums_job(log, SCHEDULES["sums, twice"], **MODES[mode], **LOGGED["in files"], **MATERIALISED))
    assert sorted(log.records) == expected()


def failing(for_s: float, allowed: int) -> dict[str, Any]:
    return {
        "faults": [FailUpload(when=AtTime(0.1), for_s=for_s)],
        "materialize_max_failures": allowed,
        "restart_strategy": RestartStrategy.NONE,
        **LOGGED["in memory"],
        **MATERIALISED,
        "materialize_interval_s": 0.1,
    }


def test_a_materialisation_may_fail_so_many_times() -> None:
    log = TransactionLog()
    job = run(sums_job(log, **failing(0.4, 30)))
    assert job.failure is None
    assert sorted(log.records) == expected()


def test_one_failure_more_fails_the_task() -> None:
    job = run(sums_job(TransactionLog(), **failing(60.0, 3)))
    assert job.failure is not None
    assert "sums[" in job.failure
    assert "4 materialisations failed in a row, but only 3 are allowed: " in job.failure
