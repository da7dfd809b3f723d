"""The option ``--load``: the same job at a multiple of its load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from netstack import Scenario

from ..base.errors import UsageError


def check_load_option(command: str, load: float) -> None:
    """Require a usable load.

    Raises:
        UsageError: it is not a number above 0.
    """
    from ..runs.job_load import check_load

    with _naming(command):
        check_load(load)


def at_load_option(command: str, scenario: Scenario, load: float) -> Scenario:
    """Return a scenario at a multiple of its load.

    Raises:
        UsageError: the load is not a number above 0.
        JobFailedError: a source emits as fast as possible, and the run that shows its rate failed.
    """
    if load == 1:
        return scenario
    from ..advise.diagnose.headroom import with_load  # imported here, because pyarrow takes a while

    with _naming(command):
        return with_load(scenario, load)


@contextmanager
def _naming(command: str) -> Iterator[None]:
    """Replace the parameter name at the beginning of errors by the option."""
    try:
        yield
    except UsageError as error:
        raise UsageError([f"netstack {command}: --{line}" for line in error.problems]) from None
