"""Reading of Flink configuration files: each option with its full name and its line.

Flink has two formats of its own. ``config.yaml`` is YAML, where dots and nesting are equivalent. Flink 2
reads only this format. The older ``flink-conf.yaml`` only looks like YAML. Flink reads each line by itself,
cuts it at ``#``, and splits it at the first colon with a space after it. Flink skips lines that it cannot
split. As in Flink, the file name decides.

Kubernetes manifests contain options too. Each place with options in a manifest is a part of its own. A
``FlinkDeployment`` of Flink's operator has options at ``spec.flinkConfiguration`` and the version at
``spec.flinkVersion``. A ``ConfigMap`` has whole files as texts at ``data``. A ``List`` holds further
manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from ...base.errors import FileError
from ...base.reading import DEEPEST, LARGEST_CONFIGURATION, one_line, read_user_text
from .flink_options import PARALLELISM, PROCESS_SIZE

MOST_OPTIONS = 2_000
"""Maximum number of options in a file: with aliases, a few lines can contain any number."""

_LONGEST_NAME = 1000
"""Maximum length of an option's name: nested aliases can make long names from few letters."""

_MOST_SHOWN = 20
"""Maximum number of values of a list that are shown."""

OLD_NAME = "flink-conf.yaml"
"""Name of files that are read line by line."""

NEW_NAME = "config.yaml"

_OF_OPERATOR = ("FlinkDeployment", "FlinkSessionJob")

_KINDS = (*_OF_OPERATOR, "ConfigMap", "List")

_DEEPEST_LIST = 8
"""Maximum nesting of manifests of kind List."""


_MOST_EVENTS = 40_000
"""Maximum number of YAML events (names, values, begins and ends).

All options of Flink need a few thousand.
"""

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The YAML loader: the one in C if available, which takes a tenth of the time."""


class Entry(NamedTuple):
    """An option as written in a file."""

    name: str
    value: str | None
    """The text without quotes. A list has its values in brackets. None: no value."""
    line: int


class Skipped(NamedTuple):
    """A line that Flink cannot read and skips."""

    text: str
    line: int


class Repeated(NamedTuple):
    """A name that occurs twice in one mapping, which YAML forbids."""

    name: str
    line: int
    first_line: int


class ConfigPart(NamedTuple):
    """The options of a file, or of one place in it, in file order. Flink reads one such part."""

    entries: list[Entry]
    skipped: list[Skipped]
    repeated: list[Repeated]
    is_old: bool
    """Whether Flink reads the part line by line, as in the older format."""
    version: str | None = None
    """Flink's version if the file states the version, such as "1.18"."""
    line: int | None = None
    """First line of the part if a manifest contains the part."""


def read_config_file(path: Path) -> list[ConfigPart]:
    """Read a configuration file, or a Kubernetes file with options in it.

    Raises:
        FileError: the file cannot be read, or Flink would reject it. The message is one line, with the place.
    """
    text = read_user_text(path, LARGEST_CONFIGURATION, f"give a config.yaml or {OLD_NAME}")
    if path.name == OLD_NAME:
        return [_read_lines(text)]
    try:
        return [
            part
            for node in _documents(text)
            for part in (_parts_of_manifest(node) if _is_manifest(node) else [_of_mapping(node)])
        ]
    except RecursionError:
        raise FileError([f"{path}: is nested too deeply to be a Flink configuration"]) from None
    except _NotOptions as error:
        where = "" if error.line is None else f"line {error.line}: "
        raise FileError([f"{path}: {where}{error}"]) from None


class _NotOptions(Exception):  # noqa: N818 - it names the content
    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def _is_manifest(node: yaml.Node) -> bool:
    """Return whether a document is a manifest of Kubernetes."""
    kind = _text_at(node, "kind")
    return kind is not None and (kind in _KINDS or _text_at(node, "apiVersion") is not None)


def _parts_of_manifest(node: yaml.Node, depth: int = 0) -> Iterator[ConfigPart]:
    """Yield the options at each place in a manifest that has options."""
    kind = _text_at(node, "kind")
    if kind == "List" and depth < _DEEPEST_LIST:
        items = _child(node, "items")
        for item in items.value if isinstance(items, yaml.SequenceNode) else ():
            yield from _parts_of_manifest(item, depth + 1)
    elif kind in _OF_OPERATOR:
        options = _child(node, "spec", "flinkConfiguration")
        if isinstance(options, yaml.MappingNode):
            part = _of_mapping(options)
            given = {entry.name for entry in part.entries}
            part.entries.extend(each for each in _of_deployment(node) if each.name not in given)
            match = re.fullmatch(r"v([0-9]+)_([0-9]+)", _text_at(node, "spec", "flinkVersion") or "")
            version = None if match is None else f"{match[1]}.{match[2]}"
            yield part._replace(version=version, line=_line(options))
    elif kind == "ConfigMap":
        for name in (OLD_NAME, NEW_NAME):
            content = _child(node, "data", name)
            if isinstance(content, yaml.ScalarNode):
                yield _embedded(content, name)


def _of_deployment(node: yaml.Node) -> Iterator[Entry]:
    """Yield the options that Flink's operator sets from other fields of a deployment."""
    places = (("job", "parallelism"), PARALLELISM), (("taskManager", "resource", "memory"), PROCESS_SIZE)
    for keys, name in places:
        value = _child(node, "spec", *keys)
        if isinstance(value, yaml.ScalarNode):
            # The operator also takes Kubernetes' binary units, as in 4Gi, which Flink does not read.
            yield Entry(name, re.sub(r"(?<=[KMG])i$", "b", str(value.value)), _line(value))


def _embedded(content: yaml.ScalarNode, name: str) -> ConfigPart:
    """Return the options of a file embedded in another one.

    Line numbers are those of the outer file, as exactly as YAML allows.
    """
    text, first = str(content.value), _line(content)

    def outer(line: int) -> int:
        # After ``|``, each line of the text is a line of the file.
        return first + line if content.style == "|" else first

    if name == OLD_NAME:
        part = _read_lines(text)
    else:
        try:
            inner = _documents(text)
            part = _of_mapping(inner[0]) if inner else ConfigPart([], [], [], is_old=False)
        except _NotOptions as error:
            raise _NotOptions(str(error), outer(error.line or 0)) from None
    return ConfigPart(
        [each._replace(line=outer(each.line)) for each in part.entries],
        [each._replace(line=outer(each.line)) for each in part.skipped],
        [Repeated(each.name, outer(each.line), outer(each.first_line)) for each in part.repeated],
        part.is_old,
        line=first,
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
    """Yield the options of a mapping; `above` are the enclosing mappings."""
    if not isinstance(node, yaml.MappingNode):
        raise _NotOptions("is not an option; write options as `name: value`", _line(node))
    if any(node is outer for outer in above):
        raise _NotOptions("an alias refers to a mapping that contains it", _line(node))
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _NotOptions("the name of an option must be text", _line(key))
        if len(prefix) + len(key.value) > _LONGEST_NAME:
            raise _NotOptions(f"a name is longer than {_LONGEST_NAME} characters", _line(key))
        name, line = f"{prefix}{key.value}", _line(key)
        if lines.setdefault(name, line) != line:
            repeated.append(Repeated(name, line, lines[name]))
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _entries(value, f"{name}.", (*above, node), repeated)
        else:
            yield Entry(name, _scalar(value), line)


def _scalar(node: yaml.Node) -> str | None:
    """Return the text of a value, without the conversions of YAML 1.1 (such as "on" to true), as Flink does.

    A list within a list is not shown, since aliases can make it arbitrarily long.
    """
    if isinstance(node, yaml.SequenceNode):
        shown = [
            str(item.value) if isinstance(item, yaml.ScalarNode) else "..."
            for item in node.value[:_MOST_SHOWN]
        ]
        if len(node.value) > _MOST_SHOWN:
            shown.append("...")
        return f"[{', '.join(shown)}]"
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        return None
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _documents(text: str) -> list[yaml.Node]:
    try:
        composer = _FromEvents(list(_events(text)))
        trees = []
        while composer.check_node():
            trees.append(composer.get_node())
        return trees
    except yaml.YAMLError as error:
        problem = one_line(getattr(error, "problem", None) or error)
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else min(mark.line, text.rstrip().count("\n")) + 1
        raise _NotOptions(
            f"cannot be read as YAML: {problem}" if line is None else f"is not valid YAML: {problem}",
            line,
        ) from None


def _read_lines(text: str) -> ConfigPart:
    part = ConfigPart([], [], [], is_old=True)
    for number, line in enumerate(text.split("\n"), 1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        name, colon, value = content.partition(": ")
        if colon and name.strip() and value.strip():
            part.entries.append(Entry(name.strip(), value.strip(), number))
        else:
            part.skipped.append(Skipped(content, number))
    return part


class _FromEvents(Composer, Resolver):  # type: ignore[misc]
    """Composer of YAML trees from a list of events, because the C loader's composer has no depth limit."""

    def __init__(self, events: list[yaml.Event]) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        self._events = events
        self._at = 0

    def check_event(self, *kinds: type[yaml.Event]) -> bool:
        """Return whether there is another event; if kinds are given, one of these kinds."""
        return self._at < len(self._events) and (not kinds or isinstance(self._events[self._at], kinds))

    def peek_event(self) -> yaml.Event:
        """Return the next event without consuming it."""
        return self._events[self._at]

    def get_event(self) -> yaml.Event:
        """Return and consume the next event."""
        self._at += 1
        return self._events[self._at - 1]


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield the YAML events. Their depth is limited, because the scanner takes quadratic time in it."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_FAST)):
        if number > _MOST_EVENTS:
            raise yaml.YAMLError(f"it contains more than {_MOST_EVENTS:,} names and values")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError
        yield event


def _child(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """Return the node at a path of keys; None if there is no such node."""
    for name in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        pairs = node.value
        node = next((value for key, value in pairs if getattr(key, "value", None) == name), None)
    return node


def _text_at(node: yaml.Node | None, *path: str) -> str | None:
    """Return the text at a path of keys; None if there is no such text."""
    scalar = _child(node, *path)
    return str(scalar.value) if isinstance(scalar, yaml.ScalarNode) else None
