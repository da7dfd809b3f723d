"""What a job is made of is left out of collections while it runs, and not a moment longer."""

from __future__ import annotations

import gc
import weakref

import pytest

from netstack.engine import garbage


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_what_was_built_is_left_out_until_it_is_over() -> None:
    with garbage.building():
        assert not gc.isenabled()
        built = weakref.ref(Knot())
    assert gc.isenabled()
    made_since = weakref.ref(Knot())
    gc.collect()
    assert built() is not None
    assert made_since() is None
    garbage.over()
    gc.collect()
    assert built() is None


def test_an_attempt_that_follows_lets_go_of_the_one_before() -> None:
    with garbage.building():
        before = weakref.ref(Knot())
    with garbage.building():
        pass
    garbage.over()
    gc.collect()
    assert before() is None
    assert gc.get_freeze_count() == 0


def test_a_build_that_fails_leaves_no_trace() -> None:
    with pytest.raises(ZeroDivisionError), garbage.building():
        raise ZeroDivisionError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_who_has_switched_collections_off_finds_them_so() -> None:
    gc.disable()
    try:
        with garbage.building():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        garbage.over()
