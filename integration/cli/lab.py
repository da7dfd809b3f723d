"""The command ``netstack lab``: watch a job in the browser, and change it while it runs."""

from __future__ import annotations

import dataclasses
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from buffers import InsufficientBuffers
from netstack import Scenario

from ..base.errors import OutputError, UsageError
from ..base.extras import require
from ..base.reading import one_line
from ..base.signals import ctrl_c_to_trio
from ..base.writing import prepare_file
from ..flink import Answers, Imported, Recorder, Recording, import_scenario
from ..show.terminal.console import print_line, say
from ..storage.rocksdb import table_stores
from .arguments import AllowCode, Flag, Several, Whole, check_policies, usage_error
from .cluster_access import ANYBODY, AccessOptions
from .option_names import problems_of
from .preparation import load_runnable, opened
from .running_job_options import AS_READ, ReadingOptions, with_option_names, write_recording

if TYPE_CHECKING:
    from ..lab.server import LabServer

LEAST_DURATION_S = 3600.0
"""Minimum length of a run, in emulated seconds. Normally the user ends the run earlier."""


def lab(
    file: Path | None = None,
    /,
    *,
    from_flink: str | None = None,
    job: str | None = None,
    access: AccessOptions = ANYBODY,
    options: ReadingOptions = AS_READ,
    port: Whole = 0,
    seed: Whole | None = None,
    policy: Several = (),
    load: float = 1.0,
    allow_code: AllowCode = False,
    no_browser: Flag = False,
) -> int:
    """Open a page on which a job runs: watch its channels, change it, and see the effect.

    Args:
        file: Scenario, as a TOML file or in its JSON form; by default a small job with back-pressure.
        from_flink: Address of Flink's web interface, such as http://localhost:8081, or a file that
            --recording wrote earlier. The lab reads the Flink job, emulates it, and shows Flink's figures
            beside the predicted ones.
        job: Id of the job in Flink; required if several jobs run.
        port: Port of the page; 0: any free port.
        seed: Seed that replaces the scenario's.
        policy: Debloating policy that the page offers beside the built-in ones; see docs/studies/POLICIES.md.
        load: Load of the sources, as a multiple of the scenario's rates. The page can change it.
        no_browser: Print the address, but do not open a browser.
    """
    require("lab", "netstack lab")
    if not 0 <= port < 1 << 16:
        raise usage_error("lab", f"--port: {port} is not a port; it must be from 0 to 65535")
    check_policies("lab", policy)
    browser = not no_browser
    if not 0 < load < inf:
        raise usage_error("lab", f"--load: is {load:g}; it must be a number above 0, such as 1.5")
    if from_flink is not None:
        if file is not None or seed is not None or load != 1 or allow_code:
            raise usage_error(
                "lab",
                "--from-flink reads the job from Flink, so it does not go with a file, "
                "--seed, --load or --allow-code; remove these",
            )
        _serve_beside(access.cluster(from_flink), job, options, port, policies=policy, browser=browser)
        return 0
    if job is not None or options != AS_READ:
        raise usage_error(
            "lab",
            "--job and the options that replace figures of Flink require --from-flink; add --from-flink, or "
            "remove the other options",
        )
    access.refuse_without_address("--from-flink is not given")
    from ..lab.controls import why_no_load
    from ..lab.lab import Lab, example
    from ..lab.server import LabServer

    scenario = example() if file is None else load_runnable(file, seed, allow_code=allow_code)
    if file is None and seed is not None:
        scenario = dataclasses.replace(scenario, seed=seed)
    why_not = None if load == 1 else why_no_load(scenario)
    if why_not is not None:
        raise usage_error("lab", f"--load: {why_not}")
    with opened(scenario, file or Path("netstack lab")) as ready, ExitStack() as stack:
        running = Lab(_longer(ready), stack.enter_context(table_stores(ready)), policies=policy, load=load)
        stack.callback(running.close)
        _serve(LabServer(running), port, browser=browser)
    return 0


def _longer(scenario: Scenario) -> Scenario:
    return dataclasses.replace(scenario, duration_s=max(scenario.duration_s, LEAST_DURATION_S))


def _serve_beside(
    cluster: Answers,
    job: str | None,
    options: ReadingOptions,
    port: int,
    *,
    policies: Sequence[str],
    browser: bool,
) -> None:
    """Serve the page of a running Flink job until Ctrl-C.

    Raises:
        FlinkRestError: the job does not exist, or the cluster does not answer.
        UsageError: an option is invalid, or the port cannot be used.
    """
    from ..flink.importing import check_readable
    from ..flink.watching import JobWatch
    from ..lab.lab import Lab
    from ..lab.observed_flink import ObservedFlink
    from ..lab.server import LabServer

    check_readable(cluster, job, options.overrides())
    read = _reader(cluster, job, options)

    with ExitStack() as stack:

        def show(imported: Imported) -> None:
            scenario = _longer(imported.scenario)
            with ExitStack() as opening:
                tables = opening.enter_context(table_stores(scenario))
                try:
                    lab = Lab(scenario, tables, begin_s=scenario.warmup_s, policies=policies)
                except InsufficientBuffers as error:
                    raise UsageError([one_line(error)]) from None
                opening.callback(lab.close)
                stack.close()  # the part that exists of an earlier reading
                stack.push(opening.pop_all())
            server.lab = lab

        def start_watch(imported: Imported) -> JobWatch | None:
            return None if isinstance(cluster, Recording) else JobWatch(cluster, imported)

        flink = ObservedFlink(
            cluster.name, read, start_watch, show, lambda: server.pages > 0, problems_of=problems_of
        )
        server = LabServer(None, flink=flink)
        _serve(server, port, browser=browser)


def _reader(
    cluster: Answers, job: str | None, options: ReadingOptions
) -> Callable[[bool, Callable[[float, float], None]], Imported]:
    """Return a function that reads the named job or, if its argument `other` is True, the job running now."""
    given, watch_s = options.overrides(), options.watch_s()
    prepare_file(options.recording)

    def read(other: bool, watching: Callable[[float, float], None]) -> Imported:
        recorder = Recorder(cluster)
        imported = import_scenario(
            recorder, None if other else job, overrides=given, watch_s=watch_s, watching=watching
        )
        imported = with_option_names(imported)
        try:
            write_recording(recorder, imported, options.recording)
        except OutputError as error:
            raise UsageError([str(error)]) from None
        return imported

    return read


def _serve(server: LabServer, port: int, *, browser: bool) -> None:
    def ready(address: str) -> None:
        print_line(address)
        say("netstack lab: open this address in a browser; Ctrl-C ends the lab")
        if browser:
            webbrowser.open(address)

    try:
        ctrl_c_to_trio(trio.run)(partial(server.serve, port, ready))
    except OSError as error:
        raise usage_error("lab", f"--port: {port}: {error.strerror}") from None
