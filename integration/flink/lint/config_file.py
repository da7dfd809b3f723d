"""Files with Flink's options: the options by their whole names, each with the line it stands on.

Two formats of Flink's own. ``config.yaml`` is YAML, where dots and nesting mean the same; Flink 2 reads no
other. The older ``flink-conf.yaml`` only looks like YAML: Flink takes each line by itself, cuts it at ``#``,
divides it at the first colon that a space follows, and skips what it cannot divide. The name of the file
decides, as it does in Flink. What Kubernetes is given holds them too (`kubernetes`): each place is a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import yaml

from netstack import ScenarioError

from ...files.user_files import LARGEST_CONFIGURATION, read_user_text
from .kubernetes import OLD_NAME, Place, is_manifest, places_in
from .yaml_nodes import documents

MOST_OPTIONS = 2_000
"""A file with more is refused: aliases can make few lines stand for any number of options."""

_LONGEST_NAME = 1000
"""Letters of a name; nesting can make names of any length out of few letters."""

_MOST_SHOWN = 20
"""Values of a list that are shown."""


class Entry(NamedTuple):
    """An option as it stands in a file."""

    name: str
    value: str | None
    """As it is written, without quotes; of a list its values in brackets. None: nothing."""
    line: int


class Skipped(NamedTuple):
    """A line that Flink cannot read and skips."""

    text: str
    line: int


class Repeated(NamedTuple):
    """A name that stands twice in one mapping, which YAML forbids."""

    name: str
    line: int
    first_line: int


class ConfigPart(NamedTuple):
    """What a file, or one place in it, holds, in its order; one Flink reads one of them."""

    entries: list[Entry]
    skipped: list[Skipped]
    repeated: list[Repeated]
    is_old: bool
    """Whether it is read line by line."""
    version: str | None = None
    """Flink's, where the file says it, as "1.18"."""
    line: int | None = None
    """Where it begins in a file that holds other things too."""


def read_config_file(path: Path) -> list[ConfigPart]:
    """Read a configuration file, or a file of Kubernetes with options in it.

    Raises:
        ScenarioError: it cannot be read, or Flink would not read it at all; one line that says where.
    """
    text = read_user_text(path, LARGEST_CONFIGURATION, f"name a config.yaml or {OLD_NAME}")
    if path.name == OLD_NAME:
        return [_read_lines(text)]
    try:
        return [part for node in _documents(text) for part in _parts(node)]
    except RecursionError:
        raise ScenarioError([f"{path}: is nested too deeply to be a Flink configuration"]) from None
    except _NotOptions as error:
        where = "" if error.line is None else f"line {error.line}: "
        raise ScenarioError([f"{path}: {where}{error}"]) from None


class _NotOptions(Exception):  # noqa: N818 - it names what is there
    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def _parts(node: yaml.Node) -> Iterator[ConfigPart]:
    if not is_manifest(node):
        yield _of_mapping(node)
        return
    for place in places_in(node):
        if place.text is not None:
            yield _of_text(place)
        elif place.node is not None:
            yield _of_mapping(place.node)._replace(version=place.version, line=place.line)


def _of_text(place: Place) -> ConfigPart:
    """The options of a file within a file; the lines are those of the outer one."""
    text = place.text or ""
    if place.is_old:
        part = _read_lines(text)
    else:
        try:
            inner = _documents(text)
            part = _of_mapping(inner[0]) if inner else ConfigPart([], [], [], is_old=False)
        except _NotOptions as error:
            raise _NotOptions(str(error), place.outer_line(error.line or 0)) from None
    return ConfigPart(
        [each._replace(line=place.outer_line(each.line)) for each in part.entries],
        [each._replace(line=place.outer_line(each.line)) for each in part.skipped],
        [
            Repeated(each.name, place.outer_line(each.line), place.outer_line(each.first_line))
            for each in part.repeated
        ],
        part.is_old,
        line=place.line,
    )


def _of_mapping(root: yaml.Node) -> ConfigPart:
    repeated: list[Repeated] = []
    if isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null":
        return ConfigPart([], [], [], is_old=False)
    entries = list(islice(_entries(root, "", (), repeated), MOST_OPTIONS + 1))
    if len(entries) > MOST_OPTIONS:
        raise _NotOptions(f"holds more than {MOST_OPTIONS} options", _line(root))
    return ConfigPart(entries, [], repeated, is_old=False)


def _entries(
    node: yaml.Node, prefix: str, above: tuple[yaml.Node, ...], repeated: list[Repeated]
) -> Iterator[Entry]:
    """Yield the options of a mapping; `above` are the mappings around it."""
    if not isinstance(node, yaml.MappingNode):
        raise _NotOptions("is no option; options are written as `name: value`", _line(node))
    if any(node is outer for outer in above):
        raise _NotOptions("an alias stands within what it stands for", _line(node))
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _NotOptions("the name of an option must be text", _line(key))
        if len(prefix) + len(key.value) > _LONGEST_NAME:
            raise _NotOptions(f"a name has more than {_LONGEST_NAME} letters", _line(key))
        name, line = f"{prefix}{key.value}", key.start_mark.line + 1
        if lines.setdefault(name, line) != line:
            repeated.append(Repeated(name, line, lines[name]))
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _entries(value, f"{name}.", (*above, node), repeated)
        else:
            yield Entry(name, _scalar(value), line)


def _scalar(node: yaml.Node) -> str | None:
    """The text of a value; what YAML 1.1 would make of "on" or "1_000" does not matter, as in Flink.

    A list within a list is not shown: with aliases, few lines stand for lists of any length.
    """
    if isinstance(node, yaml.SequenceNode):
        shown = [
            str(one.value) if isinstance(one, yaml.ScalarNode) else "..." for one in node.value[:_MOST_SHOWN]
        ]
        return f"[{', '.join([*shown, *(['...'] if len(node.value) > _MOST_SHOWN else [])])}]"
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        return None
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _documents(text: str) -> list[yaml.Node]:
    try:
        return documents(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else min(mark.line, text.rstrip().count("\n")) + 1
        raise _NotOptions(
            f"is no YAML that is read here: {problem}" if line is None else f"is not valid YAML: {problem}",
            line,
        ) from None


def _read_lines(text: str) -> ConfigPart:
    found = ConfigPart([], [], [], is_old=True)
    for number, line in enumerate(text.split("\n"), 1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        name, colon, value = content.partition(": ")
        if colon and name.strip() and value.strip():
            found.entries.append(Entry(name.strip(), value.strip(), number))
        else:
            found.skipped.append(Skipped(content, number))
    return found
