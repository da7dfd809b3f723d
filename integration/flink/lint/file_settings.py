"""The settings that a configuration file comes to, and what is found in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from netstack import OPTIONS, NetworkConfig

from .catalogue import CATALOGUE, FIRST_OF_2, Version

Severity = Literal["error", "warning", "note"]
"""error: Flink refuses it, or no job runs. warning: it does not do what it says. note: good to know."""


class Remark(msgspec.Struct, frozen=True):
    """One thing that is wrong in a file, or good to know."""

    line: int | None
    """None: it is not in the file."""
    severity: Severity
    rule: str
    """A short name of the rule that found it."""
    option: str
    """The option's name as the file spells it."""
    message: str
    """What is wrong, or what happens."""
    advice: str = ""
    """What would be right; empty where the message says it."""


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a file comes to; what ``--json`` prints."""

    schema: str = "netstack.lint/1"
    file: str
    flink: str
    """The version by whose rules it was checked."""
    options: int
    """How many of its options are of the network layer or of checkpoints."""
    ok: bool
    """Whether there is neither an error nor a warning."""
    findings: list[Remark]


class Place(NamedTuple):
    """Where an option is given, and by which of its names."""

    name: str
    line: int


class Settings(NamedTuple):
    """The settings that a file comes to, under the rules of a version."""

    config: NetworkConfig
    """Of what the version obeys; the rest is that version's constants."""
    others: Mapping[str, int | float | bool | str]
    """Options that the emulator does not know, by their names of today."""
    places: Mapping[str, Place]
    """Where each option that is given stands, by its name of today."""
    version: Version

    @property
    def is_flink_1(self) -> bool:
        """Whether it is a version before 2.0."""
        return self.version < FIRST_OF_2

    def gives(self, field: str) -> bool:
        """Whether the option of a field stands in the file and counts."""
        return field in self.config.given

    def whole(self, name: str) -> int | None:
        """Return an option that is a whole number and not in the emulator; None where it is not given."""
        value = self.others.get(name)
        return value if isinstance(value, int) else None

    def remark(self, severity: Severity, rule: str, option: str, message: str, advice: str = "") -> Remark:
        """Return a remark on an option, named by its field or by its name."""
        name = name_of(option) if option in OPTIONS else option
        place = self.places.get(name)
        line, named = (None, self.spelt(option)) if place is None else (place.line, place.name)
        return Remark(line, severity, rule, named, message, advice)

    def spelt(self, option: str) -> str:
        """Return the name that the version has for an option, given by its field or by its name of today."""
        name = name_of(option) if option in OPTIONS else option
        known = CATALOGUE.get(name)
        return (known and known.name_in(self.version)) or name


def name_of(field: str) -> str:
    """Return the name that the option of a field of `NetworkConfig` has today."""
    return CATALOGUE[OPTIONS[field].name].name
