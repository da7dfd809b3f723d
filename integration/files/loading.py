"""Scenario and result files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netstack import PathSpec, Result, Scenario, ScenarioError, Vertex, from_json, read_scenario

from .documents import check_bounds, json_document, one_line, toml_document
from .user_files import LARGEST_RESULT, read_user_file


def load_scenario(path: str | Path, *, policy: str | None = None, allow_code: bool = False) -> Scenario:
    """Read a scenario from a TOML file, or from its JSON form, alone or within a result.

    A relative path of a source is looked for beside the file first, then in the working directory. `policy`
    takes the place of the file's. A file may have come from anywhere, so a policy that it names as
    "package.module:Class" is imported, and so run, only with `allow_code`.

    Raises:
        ScenarioError: with a line for each mistake: file, key, what is wrong, what would be right.
    """
    file = Path(path)
    document = json_document(file) if file.suffix == ".json" else toml_document(file)
    if file.suffix == ".json" and isinstance(document.get("scenario"), Mapping):
        document = document["scenario"]
    check_bounds(document, file)
    if policy is not None:
        document = {**document, "policy": policy}
    elif not allow_code:
        _refuse_code(document, file)
    try:
        scenario = read_scenario(document, name=file.stem)
    except ScenarioError as error:
        raise ScenarioError([f"{file}: {problem}" for problem in error.problems]) from None
    vertices = tuple(_with_path_beside(vertex, file.parent) for vertex in scenario.vertices)
    return dataclasses.replace(scenario, vertices=vertices)


def _refuse_code(document: Mapping[str, Any], file: Path) -> None:
    policy = document.get("policy")
    if isinstance(policy, str) and ":" in policy:
        raise ScenarioError(
            [
                f"{file}: policy: {policy!r} is code, and a file alone has none run; name it by --policy, "
                "or give --allow-code for a file that you trust"
            ]
        )


def load_result(path: str | Path) -> Result:
    """Read a result document.

    Raises:
        ScenarioError: the file is missing or holds no result.
    """
    file = Path(path)
    try:
        return from_json(read_user_file(file, LARGEST_RESULT))
    except RecursionError:
        raise ScenarioError([f"{file}: is no result: it is nested too deeply"]) from None
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([f"{file}: is no result: {one_line(error)}"]) from None


def load_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        ScenarioError: it is missing, no JSON, or no object.
    """
    return json_document(Path(path))


def _with_path_beside(vertex: Vertex, folder: Path) -> Vertex:
    source = vertex.source
    if not isinstance(source, PathSpec) or not (folder / source.path).exists():
        return vertex
    return dataclasses.replace(vertex, source=dataclasses.replace(source, path=str(folder / source.path)))
