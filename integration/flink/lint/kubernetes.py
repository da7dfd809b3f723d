"""Where Flink's options stand in what Kubernetes is given.

A ``FlinkDeployment`` of Flink's operator has them at ``spec.flinkConfiguration``, and says the version at
``spec.flinkVersion``; a ``ConfigMap`` has whole files at ``data``, as texts; a ``List`` has more of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import yaml

from .yaml_nodes import child, text_at

OLD_NAME = "flink-conf.yaml"
"""Files of this name are read line by line."""

NEW_NAME = "config.yaml"

_OF_OPERATOR = ("FlinkDeployment", "FlinkSessionJob")
_KINDS = (*_OF_OPERATOR, "ConfigMap", "List")
_FILES: Mapping[str, bool] = {OLD_NAME: True, NEW_NAME: False}
_DEEPEST = 8
"""Lists within lists."""


class Place(NamedTuple):
    """A mapping of options, or the text of a file."""

    line: int
    """Where it begins."""
    node: yaml.Node | None = None
    text: str | None = None
    is_old: bool = False
    version: str | None = None
    keeps_lines: bool = False
    """Whether each line of the text is one of the file, as after ``|``."""

    def outer_line(self, line: int) -> int:
        """Return the line of the file on which a line of the text stands, as near as YAML lets one know."""
        return self.line + line if self.keeps_lines else self.line


def is_manifest(node: yaml.Node) -> bool:
    """Return whether a document is something that Kubernetes is given."""
    kind = text_at(node, "kind")
    return kind is not None and (kind in _KINDS or text_at(node, "apiVersion") is not None)


def places_in(node: yaml.Node | None, depth: int = 0) -> Iterator[Place]:
    """Yield the places of options in such a document."""
    kind = text_at(node, "kind")
    if kind == "List" and depth < _DEEPEST:
        items = child(node, "items")
        for item in items.value if isinstance(items, yaml.SequenceNode) else ():
            yield from places_in(item, depth + 1)
    elif kind in _OF_OPERATOR:
        options = child(node, "spec", "flinkConfiguration")
        if isinstance(options, yaml.MappingNode):
            version = _version(text_at(node, "spec", "flinkVersion"))
            yield Place(options.start_mark.line + 1, node=options, version=version)
    elif kind == "ConfigMap":
        for name, is_old in _FILES.items():
            content = child(node, "data", name)
            if isinstance(content, yaml.ScalarNode):
                line, keeps = content.start_mark.line + 1, content.style == "|"
                yield Place(line, text=str(content.value), is_old=is_old, keeps_lines=keeps)


def _version(text: str | None) -> str | None:
    """What the operator writes as ``v1_18``."""
    match = re.fullmatch(r"v([0-9]+)_([0-9]+)", text or "")
    return None if match is None else f"{match[1]}.{match[2]}"
