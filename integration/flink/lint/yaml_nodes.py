"""YAML to trees whose nodes know their lines, quickly and within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

DEEPEST = 100
"""Mappings and lists within each other."""

MOST_EVENTS = 40_000
"""Names, values, beginnings and ends; all of Flink's options come to a few thousand."""

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The scanner in C where there is one: a tenth of the time."""


class _FromEvents(Composer, Resolver):  # type: ignore[misc]
    """Composes trees of events that have been read; the C loader's own way goes to any depth."""

    def __init__(self, events: list[yaml.Event]) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        self._events = events
        self._at = 0

    def check_event(self, *kinds: type[yaml.Event]) -> bool:
        """Return whether there is one more, of one of these kinds if any are given."""
        return self._at < len(self._events) and (not kinds or isinstance(self._events[self._at], kinds))

    def peek_event(self) -> yaml.Event:
        """Return the next one."""
        return self._events[self._at]

    def get_event(self) -> yaml.Event:
        """Return the next one and go on."""
        self._at += 1
        return self._events[self._at - 1]


def documents(text: str) -> list[yaml.Node]:
    """Return the tree of each document that is not empty.

    Raises:
        yaml.YAMLError: it is no YAML.
        RecursionError: it goes too deep.
    """
    composer = _FromEvents(list(_events(text)))
    found = []
    while composer.check_node():
        found.append(composer.get_node())
    return found


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield what is read, as long as it is not too deep; deeper, the scanner takes the square of the time."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_FAST)):
        if number > MOST_EVENTS:
            raise yaml.YAMLError(f"it holds more than {MOST_EVENTS:,} names and values")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError
        yield event


def child(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """Return the node at a path of keys; None where there is none."""
    for name in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        pairs = node.value
        node = next((value for key, value in pairs if getattr(key, "value", None) == name), None)
    return node


def text_at(node: yaml.Node | None, *path: str) -> str | None:
    """Return the text at a path of keys; None where there is none."""
    found = child(node, *path)
    return str(found.value) if isinstance(found, yaml.ScalarNode) else None
