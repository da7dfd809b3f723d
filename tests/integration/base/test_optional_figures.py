"""Unknown figures are left out, and never count as zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.base.optional_figures import (
    complete,
    highest,
    known,
    lowest,
    mean,
    mean_of_known,
    middle,
    quotient,
    total,
)

figures = st.lists(st.none() | st.floats(min_value=-1e6, max_value=1e6), max_size=8)


def test_a_mean_of_all_is_unknown_once_one_is() -> None:
    assert mean([100.0, 200.0]) == 150.0
    assert mean([100.0, None, 200.0]) is None
    assert mean([]) is None


@given(figures)
def test_whatever_is_unknown_could_as_well_not_be_there(values: list[float | None]) -> None:
    there = known(values)
    for of in (mean_of_known, total, middle, highest, lowest):
        assert of(values) == of(there)
        assert (of(values) is None) == (not there)
    assert complete(values) == (there if there and len(there) == len(values) else None)
    if complete(values) is None:
        assert mean(values) is None
    else:
        assert mean(values) == pytest.approx(mean_of_known(values))


def test_there_is_no_quotient_of_what_is_unknown_or_by_zero() -> None:
    assert quotient(3.0, 2.0) == 1.5
    assert quotient(0.0, 2.0) == 0.0
    assert quotient(None, 2.0) is quotient(3.0, None) is quotient(3.0, 0.0) is None
