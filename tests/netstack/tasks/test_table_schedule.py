"""When tables are compacted in emulated time, and which snapshots have the new files."""

from __future__ import annotations

import pytest
import trio

from netstack import Agenda, CostModel, StateTtlConfig, TableOptions
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.event_clock import EventClock
from netstack.state.table_backend import TableSettings, TableStateBackend
from netstack.tasks.state_work import TableSchedule
from tests.netstack.table_model import ModelStore, ModelStores

RATE = 1000.0


class Tables:
    """A backend whose tables are compacted on an agenda, at 1000 bytes a second."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        stores = ModelStores()
        clock = EventClock(lambda: self.agenda.now)
        self.backend = TableStateBackend(
            "a-0", range(4), 4, None, TableSettings(stores, TableOptions()), clock
        )
        TableSchedule(self.agenda, CostModel(table_compaction_rate_bytes_per_s=RATE), self.backend)
        self.state = self.backend.value("v")
        self.store: ModelStore = stores.opened[0]
        self.seen: dict[float, list[int]] = {}

    def snapshot(self) -> None:
        """Change something and take a snapshot; `seen` has the levels of its files."""
        self.backend.set_current_key(1, 1)
        self.state.update(b"x" * 20)
        self.backend.snapshot(1)
        self.seen[self.agenda.now] = [file.level for file in self.store.views[-1].files]

    def run(self, *at: float) -> None:
        for time in at:
            self.agenda.at(time, self.snapshot)
        self.agenda.at(100.0, self.agenda.stop)
        trio.run(run_agenda, self.agenda)


def test_a_merge_begins_with_the_fourth_file_and_later_snapshots_have_its_file() -> None:
    tables = Tables()
    tables.run(1.0, 2.0, 3.0, 4.0, 4.001)
    assert tables.seen == {1.0: [0], 2.0: [0, 0], 3.0: [0, 0, 0], 4.0: [0, 0, 0, 0], 4.001: [1, 0]}


def test_the_next_merge_begins_when_the_bytes_of_the_last_one_have_been_moved() -> None:
    tables = Tables()
    tables.run(1.0, 2.0, 3.0, 4.0)
    moved = 4 * tables.store.views[0].files[0].size + tables.store.tables[0].size
    ends = 4.0 + moved / RATE

    again = Tables()
    during = [4.0 + number * 0.001 for number in range(1, 5)]
    again.run(1.0, 2.0, 3.0, 4.0, *during, ends - 0.001, ends + 0.001)
    assert again.seen[ends - 0.001] == [1, 0, 0, 0, 0, 0]
    assert again.seen[ends + 0.001] == [1, 0]


def test_what_is_to_be_merged_next_waits_for_the_one_that_runs() -> None:
    tables = Tables()
    tables.run(*(1.0 + 0.001 * number for number in range(9)))
    assert sorted(list(tables.seen.values())[-1]) == [*[0] * 5, 1]
    # The second merge found five files of level 0 besides the file of the first one.
    assert [file.level for file in tables.store.tables] == [1]


@pytest.mark.parametrize("snapshots", [3, 4])
def test_nothing_is_merged_while_no_level_is_full(snapshots: int) -> None:
    tables = Tables()
    tables.run(*(float(number) for number in range(1, snapshots + 1)))
    assert len(tables.store.tables) == (3 if snapshots == 3 else 1)


@pytest.mark.parametrize(("ttl_s", "left"), [(0.3, []), (2.2, [b"2", b"3"]), (9.0, [b"0", b"1", b"2", b"3"])])
def test_what_has_expired_is_in_no_file_that_comes_of_a_merge(ttl_s: float, left: list[bytes]) -> None:
    tables = Tables()
    state = tables.backend.map("m", ttl=StateTtlConfig(ttl_s))

    def put(number: int) -> None:
        tables.backend.set_current_key("k", 0)
        state.put(number, str(number).encode())

    for number in range(4):
        tables.agenda.at(number + 0.6, put, number)
    tables.run(1.0, 2.0, 3.0, 4.0)
    merged = [file for file in tables.store.tables if file.family == "m"]
    values = [value for file in merged for _, value in file.entries if value is not None]
    assert [file.level for file in merged] == [1]
    assert [each for each in (b"0", b"1", b"2", b"3") if any(each in value for value in values)] == left
