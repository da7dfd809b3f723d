"""What a large job is made of is left out of collections while it runs, and not a moment longer."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from netstack import Edge, GeneratorSpec, Scenario, Vertex, emulate
from netstack.engine import python_gc

pytestmark = pytest.mark.long


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def all_jobs_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_gc, "LARGE_BLOCKS", -(10**9))
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_what_was_built_is_left_out_until_it_is_over() -> None:
    with python_gc.building():
        assert not gc.isenabled()
        built = weakref.ref(Knot())
    assert gc.isenabled()
    made_since = weakref.ref(Knot())
    gc.collect()
    assert built() is not None
    assert made_since() is None
    python_gc.over()
    gc.collect()
    assert built() is None


def test_an_attempt_that_follows_lets_go_of_the_one_before() -> None:
    with python_gc.building():
        before = weakref.ref(Knot())
    with python_gc.building():
        assert before() is None
    python_gc.over()
    assert gc.get_freeze_count() == 0


def test_a_job_that_follows_lets_go_of_the_one_before() -> None:
    with python_gc.building():
        before = weakref.ref(Knot())
    python_gc.over()
    with python_gc.building():
        assert before() is None
    python_gc.over()


def test_what_a_large_job_makes_is_searched_rarely_and_nothing_else() -> None:
    before = gc.get_threshold()
    with python_gc.building():
        assert gc.get_threshold() == before
    assert gc.get_threshold()[:2] == python_gc.RARELY[:2]
    python_gc.over()
    assert gc.get_threshold() == before


def test_a_very_large_job_is_searched_the_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_gc, "PART_OF_JOB", 1)
    monkeypatch.setattr(python_gc, "RARELY", (1_000, 50, 100))
    with python_gc.building():
        made = [bytes(40 + number % 5) for number in range(50_000)]
    assert len(made) <= gc.get_threshold()[0] < 2 * len(made)
    python_gc.over()


def test_thresholds_come_back_where_python_does_not_tell_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since 3.14 it says 0 for the oldest kind."""
    get, before = gc.get_threshold, gc.get_threshold()
    monkeypatch.setattr(gc, "get_threshold", lambda: (*get()[:2], 0))
    with python_gc.building():
        pass
    python_gc.over()
    monkeypatch.undo()
    assert gc.get_threshold()[:2] == before[:2]


def test_thresholds_that_somebody_sets_meanwhile_stay() -> None:
    before = gc.get_threshold()
    try:
        with python_gc.building():
            pass
        gc.set_threshold(500, 5, 5)
        python_gc.over()
        assert gc.get_threshold() == (500, 5, 5)
    finally:
        gc.set_threshold(*before)


def test_what_a_large_job_has_made_is_not_searched_when_it_is_over() -> None:
    searched: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        searched.append(info["generation"])

    with python_gc.building():
        pass
    made = [Knot() for _ in range(gc.get_threshold()[0] // 2)]  # more than Python's own thresholds allow
    gc.callbacks.append(look)
    try:
        python_gc.over()
        first = Knot()
    finally:
        gc.callbacks.remove(look)
    assert (len(made), first.me, searched) == (python_gc.RARELY[0] // 2, first, [])


def test_a_small_job_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_gc, "LARGE_BLOCKS", 1_000_000)
    with python_gc.building():
        built = weakref.ref(Knot())
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert built() is None


def test_what_others_have_frozen_stays_so() -> None:
    gc.disable()
    frozen = weakref.ref(Knot())
    gc.freeze()
    gc.enable()
    try:
        with python_gc.building():
            pass
        python_gc.over()
        gc.collect()
        assert frozen() is not None
    finally:
        gc.unfreeze()


def test_jobs_one_after_the_other_take_no_more_memory_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_gc, "LARGE_BLOCKS", 0)
    job = Scenario(
        name="many channels",
        vertices=(
            Vertex(name="source", parallelism=20, source=GeneratorSpec(record_bytes=100, rates=(10.0,))),
            Vertex(name="sink", parallelism=20),
        ),
        edges=(Edge(source="source", target="sink", ship="rebalance"),),
        duration_s=0.1,
    )
    blocks = []
    for _ in range(8):
        emulate(job)
        blocks.append(sys.getallocatedblocks())
    assert blocks[-1] - blocks[0] < 10_000


def test_a_build_that_fails_leaves_no_trace() -> None:
    with pytest.raises(ZeroDivisionError), python_gc.building():
        raise ZeroDivisionError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_who_has_switched_collections_off_finds_them_so() -> None:
    gc.disable()
    try:
        with python_gc.building():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        python_gc.over()
