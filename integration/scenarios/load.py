"""Scenario and result files."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netstack import PathSpec, Result, Scenario, ScenarioError, Vertex, from_json

from .scenario_reader import read_scenario


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a TOML file, or from its JSON form, alone or within a result.

    A relative path of a source is looked for beside the file first, then in the working directory.

    Raises:
        ScenarioError: with a line for each mistake: file, key, what is wrong, what would be right.
    """
    file = Path(path)
    document = _read(file)
    if file.suffix == ".json" and isinstance(document.get("scenario"), Mapping):
        document = document["scenario"]
    try:
        scenario = read_scenario(document, name=file.stem)
    except ScenarioError as error:
        raise ScenarioError([f"{file}: {problem}" for problem in error.problems]) from None
    vertices = tuple(_with_path_beside(vertex, file.parent) for vertex in scenario.vertices)
    return dataclasses.replace(scenario, vertices=vertices)


def load_result(path: str | Path) -> Result:
    """Read a result document.

    Raises:
        ScenarioError: the file is missing or holds no result.
    """
    file = Path(path)
    try:
        return from_json(_bytes(file))
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([f"{file}: is no result: {_one_line(error)}"]) from None


def load_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        ScenarioError: it is missing, no JSON, or no object.
    """
    file = Path(path)
    try:
        document = json.loads(_bytes(file))
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([f"{file}: is not valid JSON: {_one_line(error)}"]) from None
    if not isinstance(document, dict):
        raise ScenarioError([f"{file}: holds no object; it must begin with {{"])
    return document


def _read(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        return load_json(file)
    try:
        return tomllib.loads(_bytes(file).decode())
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError([f"{file}: is not valid TOML: {_one_line(error)}"]) from None
    except UnicodeDecodeError:
        raise ScenarioError([f"{file}: is not text in UTF-8; a scenario is a TOML file"]) from None


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ScenarioError([f"{file}: there is no such file"]) from None
    except OSError as error:
        raise ScenarioError([f"{file}: cannot be read: {error.strerror}"]) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _with_path_beside(vertex: Vertex, folder: Path) -> Vertex:
    source = vertex.source
    if not isinstance(source, PathSpec) or not (folder / source.path).exists():
        return vertex
    return dataclasses.replace(vertex, source=dataclasses.replace(source, path=str(folder / source.path)))
