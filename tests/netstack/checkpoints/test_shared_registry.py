"""Who uses shared files, and when they go."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from netstack.checkpoints.completed_store import SharedStateRegistry
from netstack.state.snapshots import StoredFile


def file_of(key: str, stored_for: int = 0) -> StoredFile:
    return StoredFile(path=f"shared/{key}-{stored_for}", size=1, checksum="", shared=True)


def register(registry: SharedStateRegistry, checkpoint_id: int, keys: Sequence[str]) -> None:
    assert registry.register(checkpoint_id, [(key, file_of(key)) for key in keys]) == {}


def counts(registry: SharedStateRegistry) -> dict[str, int]:
    keys = ["1", "2", "3", "4", "(1,2,3)", "5", "(4,5,6)"]
    return {key: len(registry.users(key)) for key in keys if registry.users(key)}


def test_the_example_of_two_retained_checkpoints_and_two_merges() -> None:
    registry = SharedStateRegistry()
    register(registry, 1, ["1", "2"])
    assert counts(registry) == {"1": 1, "2": 1}
    register(registry, 2, ["1", "2", "3", "4"])
    assert counts(registry) == {"1": 2, "2": 2, "3": 1, "4": 1}
    register(registry, 3, ["(1,2,3)", "4", "5"])
    assert counts(registry) == {"1": 2, "2": 2, "3": 1, "4": 2, "(1,2,3)": 1, "5": 1}
    assert registry.unregister(1) == []
    assert counts(registry) == {"1": 1, "2": 1, "3": 1, "4": 2, "(1,2,3)": 1, "5": 1}
    register(registry, 4, ["(1,2,3)", "(4,5,6)"])
    assert counts(registry) == {"1": 1, "2": 1, "3": 1, "4": 2, "(1,2,3)": 2, "5": 1, "(4,5,6)": 1}
    assert registry.unregister(2) == [file_of("1"), file_of("2"), file_of("3")]
    assert counts(registry) == {"4": 1, "(1,2,3)": 2, "5": 1, "(4,5,6)": 1}
    assert registry.unregister(3) == [file_of("4"), file_of("5")]
    assert counts(registry) == {"(1,2,3)": 1, "(4,5,6)": 1}


def test_the_first_file_of_a_key_stays_and_a_later_one_is_named_as_its_duplicate() -> None:
    registry = SharedStateRegistry()
    first, second = file_of("a", 1), file_of("a", 2)
    assert registry.register(1, [("a", first)]) == {}
    assert registry.register(2, [("a", second)]) == {second.path: first}
    assert (registry.has(first), registry.has(second)) == (True, False)
    assert registry.unregister(1) == []
    assert registry.unregister(2) == [first]
    assert not registry.has(first)
    assert registry.register(3, [("a", second)]) == {}
    assert registry.users("a") == {3}
    assert registry.users("b") == set()


CHECKPOINTS = st.lists(st.tuples(st.sets(st.integers(0, 6)), st.booleans()), max_size=20)
"""Of each, the keys of its files, and whether it stores them anew or uses what is there."""


@given(CHECKPOINTS, st.integers(1, 4))
def test_a_file_goes_when_its_last_user_is_older_than_the_oldest_retained(
    checkpoints: list[tuple[set[int], bool]], retained: int
) -> None:
    registry = SharedStateRegistry()
    there: dict[str, StoredFile] = {}  # the file of each key that is stored
    last_used: dict[str, int] = {}
    kept: list[int] = []
    for number, (numbers, anew) in enumerate(checkpoints, 1):
        keys = [str(key) for key in sorted(numbers)]
        files = [(key, file_of(key, number) if anew or key not in there else there[key]) for key in keys]
        duplicates = registry.register(number, files)
        assert duplicates == {
            file.path: there[key] for key, file in files if key in there and there[key] != file
        }
        for key, file in files:
            there.setdefault(key, file)
            last_used[key] = number
        kept.append(number)
        if len(kept) > retained:
            deleted = registry.unregister(kept.pop(0))
            gone = {key: file for key, file in there.items() if last_used[key] < kept[0]}
            assert sorted(file.path for file in deleted) == sorted(file.path for file in gone.values())
            there = {key: file for key, file in there.items() if key not in gone}
        assert all(registry.has(file) for file in there.values())
        assert {key: max(registry.users(key)) for key in there} == {key: last_used[key] for key in there}
