"""Findings as data, and the rules that put them into words.

A condition is a function of an observation. It yields what it found as data: the place, the case, and values.
`rule` gives it words, so that both stand together. Another rule may give the same condition other
words::

    @rule("late-source", "notice", says="...", evidence=["{delay_ms:ms} from the trigger to the barrier"])
    def late_source(view):
        for vertex in view.vertices:
            if ...:
                yield Found(vertex.name, delay_ms=...)

A line of words is a template of named values (`words.fill`), or a function of `words` that returns lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from .observation import Observation
from .words import Line, fill, lines

Severity = Literal["problem", "notice", "fine"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding of a rule: its place, its meaning, the figures behind it, and what to do next."""

    rule: str
    severity: Severity
    where: str
    """A vertex, an exchange as "a -> b", or "checkpoints"."""
    says: str
    evidence: list[str]
    next: list[str] = []
    weight: float | msgspec.UnsetType = msgspec.UNSET
    """Size of the problem, for comparing the findings of one rule. Only rules of `tune` set it, since only
    `tune` compares runs."""


class Found:
    """A place where a condition holds, its case, and values for words."""

    def __init__(
        self, where: str, case: object = True, *, severity: Severity | None = None, **values: Any
    ) -> None:
        self.where = where
        self.case = case
        self.severity = severity
        """None: the severity that the words name."""
        self.values = values


Condition = Callable[[Observation], Iterator[Found]]
"""Function that yields what it finds in an observation."""


@dataclass(frozen=True, slots=True)
class Words:
    """The wording of one case of a condition."""

    rule: str
    """Name of the rule in findings."""
    severity: Severity
    says: str
    evidence: Sequence[Line]
    next: Sequence[Line] = ()
    case: object = True
    """The case of the condition: True, False, None (unknown), or a name."""
    weight: str | None = None
    """Name of the value that is the weight of the finding."""


class Rule:
    """A condition with words for some of its cases. Called with an observation, it yields findings."""

    def __init__(self, condition: Condition, *words: Words) -> None:
        self.condition = condition
        self.words = words

    def __call__(self, view: Observation) -> Iterator[Finding]:
        """Yield the findings of this rule."""
        for found in self.condition(view):
            values = {"where": found.where, "view": view, **found.values}
            for words in self.words:
                if words.case == found.case:
                    yield Finding(
                        rule=words.rule,
                        severity=found.severity or words.severity,
                        where=found.where,
                        says=fill(words.says, values),
                        evidence=lines(words.evidence, values),
                        next=lines(words.next, values),
                        weight=msgspec.UNSET if words.weight is None else values[words.weight],
                    )


def rule(name: str, severity: Severity, **words: Any) -> Callable[[Condition | Rule], Rule]:
    """Return a decorator that gives a condition the words of one case, with further ones below it."""
    top = Words(name, severity, **words)

    def with_words(below: Condition | Rule) -> Rule:
        return Rule(below.condition, top, *below.words) if isinstance(below, Rule) else Rule(below, top)

    return with_words
