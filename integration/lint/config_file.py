"""Flink's configuration files, as options by their whole names, each with the line it stands on.

Two formats. ``config.yaml`` is YAML, where dots and nesting mean the same; Flink 2 reads nothing else. The
older ``flink-conf.yaml`` only looks like YAML: Flink takes each line by itself, cuts it at ``#``, divides it
at the first colon that a space follows, and skips what it cannot divide. The name of the file decides, as it
does in Flink.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import yaml

from netstack import ScenarioError

from ..user_files import LARGEST_CONFIGURATION, read_user_text

OLD_NAME = "flink-conf.yaml"
"""Files of this name are read line by line."""

MOST_OPTIONS = 10_000
"""A file with more is refused: aliases can make few lines stand for any number of options."""


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


class ConfigFile(NamedTuple):
    """What a file holds, in its order."""

    entries: list[Entry]
    skipped: list[Skipped]
    repeated: list[Repeated]
    is_old: bool
    """Whether it is read line by line."""


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        ScenarioError: it cannot be read, or Flink would not read it at all; one line that says where.
    """
    text = read_user_text(path, LARGEST_CONFIGURATION, f"name a config.yaml or {OLD_NAME}")
    if path.name == OLD_NAME:
        return _read_lines(text)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        repeated: list[Repeated] = []
        entries = [] if root is None else _flat(root, repeated)
    except yaml.YAMLError as error:
        raise ScenarioError([f"{path}: {_yaml_problem(error)}"]) from None
    except RecursionError:
        raise ScenarioError([f"{path}: is nested too deeply to be a Flink configuration"]) from None
    except _NotOptions as error:
        raise ScenarioError([f"{path}: line {error.line}: {error}"]) from None
    return ConfigFile(entries, [], repeated, is_old=False)


class _NotOptions(Exception):  # noqa: N818 - it names what is there
    def __init__(self, message: str, node: yaml.Node) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1


def _flat(root: yaml.Node, repeated: list[Repeated]) -> list[Entry]:
    entries = list(islice(_entries(root, "", (), repeated), MOST_OPTIONS + 1))
    if len(entries) > MOST_OPTIONS:
        raise _NotOptions(f"holds more than {MOST_OPTIONS} options", root)
    return entries


def _entries(
    node: yaml.Node, prefix: str, above: tuple[yaml.Node, ...], repeated: list[Repeated]
) -> Iterator[Entry]:
    """Yield the options of a mapping; `above` are the mappings around it."""
    if not isinstance(node, yaml.MappingNode):
        raise _NotOptions("is no option; options are written as `name: value`", node)
    if any(node is outer for outer in above):
        raise _NotOptions("an alias stands within what it stands for", node)
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _NotOptions("the name of an option must be text", key)
        name, line = f"{prefix}{key.value}", key.start_mark.line + 1
        if lines.setdefault(name, line) != line:
            repeated.append(Repeated(name, line, lines[name]))
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _entries(value, f"{name}.", (*above, node), repeated)
        else:
            yield Entry(name, _scalar(value), line)


def _scalar(node: yaml.Node) -> str | None:
    """The text of a value; what YAML 1.1 would make of "on" or "1_000" does not matter, as in Flink."""
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(_scalar(one) or '...' for one in node.value if one is not node)}]"
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        return None
    return str(node.value)


def _yaml_problem(error: yaml.YAMLError) -> str:
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f"line {mark.line + 1}: "
    return f"{where}is not valid YAML: {problem}"


def _read_lines(text: str) -> ConfigFile:
    found = ConfigFile([], [], [], is_old=True)
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        name, colon, value = content.partition(": ")
        if colon and name.strip() and value.strip():
            found.entries.append(Entry(name.strip(), value.strip(), number))
        else:
            found.skipped.append(Skipped(content, number))
    return found
