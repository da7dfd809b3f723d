"""Parameters of tests that cross several axes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def crossed(**axes: Sequence[Any] | Mapping[str, Any]) -> pytest.MarkDecorator:
    """Return a mark that runs a test with all combinations of the values of some axes.

    The first combinations have each value of each axis once; the others are marked ``long``. An axis whose
    name joins several arguments by ``__`` has tuples of their values; a mapping gives the values names.
    """
    values = {
        name: [(str(key), value) for key, value in axis.items()]
        if isinstance(axis, Mapping)
        else [(str(value).replace(" ", ""), value) for value in axis]
        for name, axis in axes.items()
    }
    longest = max(map(len, values.values()))
    diagonal = {tuple(index % len(axis) for axis in values.values()) for index in range(longest)}
    names = [name.split("__") for name in values]
    cases = []
    for places in itertools.product(*(range(len(axis)) for axis in values.values())):
        chosen = [axis[place] for axis, place in zip(values.values(), places, strict=True)]
        flat = [
            part
            for parts, (_, value) in zip(names, chosen, strict=True)
            for part in (value if len(parts) > 1 else (value,))
        ]
        marks = () if places in diagonal else pytest.mark.long
        cases.append(pytest.param(*flat, marks=marks, id="-".join(text for text, _ in chosen)))
    return pytest.mark.parametrize([part for parts in names for part in parts], cases)
