"""All cases, in the order in which they are listed and run: Flink's first, then ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netstack import ScenarioError, did_you_mean

from . import (
    barrier_works,
    checkpoint_cases,
    credit_works,
    frame_works,
    network_cases,
    pool_works,
    record_works,
    recovery_case,
    row_works,
    state_works,
)
from .bench_case import Case, Point, Way

FLINK_CASES = (*network_cases.CASES, *checkpoint_cases.CASES)
"""Those of flink-benchmarks."""

CASES = {
    case.name: case
    for case in (
        *FLINK_CASES,
        *credit_works.CASES,
        *frame_works.CASES,
        *pool_works.CASES,
        *record_works.CASES,
        *row_works.CASES,
        *barrier_works.CASES,
        *state_works.CASES,
        *recovery_case.CASES,
    )
}
"""Every case by its name."""


def case_named(name: str) -> Case:
    """Return a case.

    Raises:
        ScenarioError: there is none of that name.
    """
    if name not in CASES:
        hint = did_you_mean(name, CASES)
        raise ScenarioError([f"netstack bench: there is no case {name!r}; {hint}"])
    return CASES[name]


def chosen_points(
    names: Sequence[str], parameters: Sequence[str] = (), ways: Iterable[str] = ()
) -> list[Point]:
    """Return what is to be run: of all cases unless some are named, and so for parameters and ways.

    Raises:
        ScenarioError: there is no such case, parameter or way, or nothing is left.
    """
    cases = [case_named(name) for name in dict.fromkeys(names)] or list(CASES.values())
    known = {parameter for case in cases for parameter in case.parameters if parameter}
    for parameter in parameters:
        if parameter not in known:
            there = ", ".join(map(repr, sorted(known))) or "none"
            raise ScenarioError([f"netstack bench: --parameter: no case has {parameter!r}; there is {there}"])
    wanted = {_way(way) for way in ways} or set(Way)
    points = [
        point
        for case in cases
        for point in case.points()
        if point.way in wanted and (not parameters or point.parameter in parameters)
    ]
    if not points:
        raise ScenarioError([f"netstack bench: {_why_nothing(cases, wanted)}"])
    return points


def _way(name: str) -> Way:
    try:
        return Way(name)
    except ValueError:
        text = f"netstack bench: --way is {name!r}; it must be {', '.join(Way)}"
        raise ScenarioError([text]) from None


def _why_nothing(cases: Sequence[Case], ways: Iterable[Way]) -> str:
    reasons = [
        f"{case.name} is not run {way}: it {case.absent[way]}"
        for case in cases
        for way in ways
        if way in case.absent
    ]
    excluded = [
        f"{case.name} {parameter} is not run {way}: {why}"
        for case in cases
        for (parameter, way), why in case.excluded.items()
        if way in ways
    ]
    return (reasons + excluded)[0]
