"""How busy tasks share cores, held against counting every case."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.flink.processor_time import cores_in_use, shares_of_core

BUSY = st.sampled_from((0.0, 0.01, 0.3, 0.5, 0.77, 0.99, 1.0))
CORES = st.sampled_from((0.5, 1.0, 1.5, 2.0, 3.3, 6.0))


def cases(busy: list[float]) -> list[tuple[int, float]]:
    """Of every set of tasks that may be busy at a time, how many they are and how likely."""
    return [
        (sum(each), prod(share if now else 1 - share for share, now in zip(busy, each, strict=True)))
        for each in product((0, 1), repeat=len(busy))
    ]


@given(busy=st.lists(BUSY, min_size=1, max_size=6), cores=CORES)
def test_what_is_in_use_and_what_each_has_is_the_mean_over_all_cases(busy: list[float], cores: float) -> None:
    assert cores_in_use(busy, cores) == pytest.approx(
        sum(chance * min(count, cores) for count, chance in cases(busy))
    )
    others = {share: busy[:n] + busy[n + 1 :] for n, share in enumerate(busy)}
    assert shares_of_core(busy, cores) == pytest.approx(
        {
            share: sum(chance * min(1.0, cores / (1 + count)) for count, chance in cases(rest))
            for share, rest in others.items()
        }
    )


@pytest.mark.parametrize("cores", [2, 64, 2000.5, 4000, 7999])
def test_shares_of_thousands_of_tasks_add_up_to_the_cores_in_use(cores: float) -> None:
    busy = [number % 101 / 100 for number in range(8000)]
    shares = shares_of_core(busy, cores)
    assert sum(share * shares[share] for share in busy) == pytest.approx(cores_in_use(busy, cores), abs=1e-9)
    # Who is busy always is one of those that wait for a core, who hardly ever is comes to all of these.
    assert shares[0.0] <= shares[1.0] + 1e-12


def test_no_tasks_share_nothing() -> None:
    assert (cores_in_use([], 2), shares_of_core([], 2)) == (0, {})
