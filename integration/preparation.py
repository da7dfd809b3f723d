"""From a file a person names to a scenario that can be run, with what has to be said on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.text import Text

from buffers import InsufficientBuffers
from netstack import (
    Scenario,
    ScenarioError,
    SourceError,
    option_notices,
    scenario_problems,
    unsupported_features,
)

from .load import load_scenario
from .output import say, to_stderr
from .sources import open_sources, reads_paths


def load_runnable(file: Path, seed: int | None = None) -> Scenario:
    """Read a scenario that this version can run, and say on stderr what a user should know of its options.

    Raises:
        ScenarioError: it makes no sense, or asks for more than there is; a line for each mistake.
    """
    scenario = load_scenario(file)
    if seed is not None:
        scenario = dataclasses.replace(scenario, seed=seed)
    mistakes = scenario_problems(scenario) or unsupported_features(scenario)
    if mistakes:
        raise ScenarioError([f"{file}: {key}: {message}" for key, message in mistakes])
    for key, message in option_notices(scenario):
        say(f"{file}: {key}: {message}")
    return scenario


@contextmanager
def opened(scenario: Scenario, file: Path) -> Iterator[Scenario]:
    """Open the files that sources read, and put the scenario's name before what goes wrong then.

    Raises:
        ScenarioError: a source cannot be read, the job does not fit what it holds, or its network memory
            does not suffice.
    """
    try:
        with _read_by_spark(scenario) as ready:
            yield ready
    except (InsufficientBuffers, SourceError) as error:
        raise ScenarioError([f"{file}: {' '.join(str(error).split())}"]) from None


@contextmanager
def _read_by_spark(scenario: Scenario) -> Iterator[Scenario]:
    if not reads_paths(scenario):
        yield scenario
        return
    with ExitStack() as stack:
        with to_stderr().status(Text(f"{scenario.name}: Spark reads the sources")):
            ready = stack.enter_context(open_sources(scenario))
        say(f"{scenario.name}: sources are read")
        yield ready
