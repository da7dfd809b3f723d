"""What a checkpoint says of its state: sums by key that follow from the positions of its sources."""

from __future__ import annotations

from collections import Counter

import pytest

from netstack import (
    HandleReader,
    Job,
    MemoryStorage,
    StateError,
    TransactionLog,
    encode_value,
    keyed_entries,
    operator_lists,
)
from tests.netstack.whole_jobs import KEYS, run, sums_job


def test_an_aligned_checkpoint_has_the_sums_of_the_records_before_the_positions_of_its_sources() -> None:
    storage, seen = MemoryStorage(), list[int]()

    def look(job: Job) -> None:
        number = max(number for number in storage.present() if f"chk-{number}/_metadata" in storage.files)
        metadata, read = storage.load(number), HandleReader(storage)
        lists = [each for subtask in metadata.subtasks for each in operator_lists(subtask, read)]
        assert [each[:4] for each in lists] == [
            ("numbers", subtask, "source position", "split") for subtask in (0, 1)
        ]
        sums: Counter[bytes] = Counter()
        for position in (each.values[0] for each in lists):
            for value in range(position):
                sums[b"k%d" % (value % KEYS)] += value
        entries = [each for subtask in metadata.subtasks for each in keyed_entries(metadata, subtask, read)]
        assert {each.key: each.value for each in entries} == sums
        assert {each[:1] + each[2:4] + each[6:7] for each in entries} == {("sums", "sum", "reducing", None)}
        for each in entries:
            assert each.size == len(encode_value(each.key)) + len(encode_value(each.value))
            assert each.subtask == each.key_group * 2 // 128
        seen.append(len(entries))

    run(sums_job(TransactionLog()), storage, [(1.0, look)])
    assert seen == [KEYS]


def test_operator_state_is_a_list() -> None:
    storage = MemoryStorage()

    def look(job: Job) -> None:
        number = max(number for number in storage.present() if f"chk-{number}/_metadata" in storage.files)
        source = storage.load(number).subtasks[0]
        with pytest.raises(
            StateError, match=r"^the operator state 'source position' in the checkpoint is not a list$"
        ):
            list(operator_lists(source, lambda handle: encode_value({})))

    run(sums_job(TransactionLog()), storage, [(1.0, look)])
