"""The command ``netstack lab``: a job to watch, and to change while it runs, in the browser."""

from __future__ import annotations

import dataclasses
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import trio

from netstack import Scenario, ScenarioError

from ..emulating import heard_by_trio
from ..extras import require
from ..report.output import say
from ..state.stores import table_stores
from .arguments import Flag, Whole
from .preparation import load_runnable, opened

LEAST_DURATION_S = 3600.0
"""How long a job runs at least, in emulated seconds: the user says when it is enough."""


def lab(
    file: Path | None = None,
    /,
    *,
    port: Whole = 0,
    seed: Whole | None = None,
    no_browser: Flag = False,
) -> int:
    """Open a page on this machine, on which a job runs: watch its channels, change it, and see what comes.

    Args:
        file: Scenario, a TOML file or its JSON form; by default a small job that is back-pressured.
        port: Where the page is served; 0: wherever there is room.
        seed: In place of the scenario's.
        no_browser: Print the address, and open no browser.
    """
    require("lab", "netstack lab")
    if not 0 <= port < 1 << 16:
        raise ScenarioError([f"netstack lab: --port: {port} is no port; it must be from 0 to 65535"])
    with _ready(file, seed) as scenario:
        serve(scenario, port, browser=not no_browser)
    return 0


@contextmanager
def _ready(file: Path | None, seed: int | None) -> Iterator[Scenario]:
    from ..lab.example import example

    scenario = example() if file is None else load_runnable(file, seed)
    if file is None and seed is not None:
        scenario = dataclasses.replace(scenario, seed=seed)
    longer = dataclasses.replace(scenario, duration_s=max(scenario.duration_s, LEAST_DURATION_S))
    with opened(longer, Path("netstack lab") if file is None else file) as ready:
        yield ready


def serve(scenario: Scenario, port: int, *, browser: bool) -> None:
    """Serve the page of a job until Ctrl-C.

    Raises:
        ScenarioError: nothing can be served at that port.
    """
    from ..lab.lab import Lab
    from ..lab.server import LabServer

    with ExitStack() as stack:
        tables = stack.enter_context(table_stores(scenario))
        lab = Lab(scenario, tables)
        stack.callback(lab.close)
        server = LabServer(lab)
        ready = partial(_ready_at, browser=browser)
        try:
            heard_by_trio(trio.run)(partial(server.serve, port, ready))
        except OSError as error:
            raise ScenarioError([f"netstack lab: --port: {port}: {error.strerror}"]) from None


def _ready_at(address: str, *, browser: bool) -> None:
    print(address, flush=True)
    say("netstack lab: open this address; Ctrl-C ends the lab")
    if browser:
        webbrowser.open(address)
