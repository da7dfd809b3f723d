"""Runs a job over TCP without Spark: its task managers run in separate processes, or all in this one."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection

import trio

from flowcontrol import Secret
from integration.storage import DirectoryStorage
from netstack import (
    Assignment,
    LaunchError,
    Mesh,
    Report,
    Result,
    Scenario,
    decode_report,
    encode_report,
    fresh_secret,
    run_distributed,
    run_task_manager,
    task_managers,
)

Attempt = Callable[[Assignment, str], list[Report]]
"""Function that runs an attempt, with its checkpoints in a folder."""


def run_in_processes(scenario: Scenario) -> Result:
    """Run a job in real time, with a process for each task manager."""
    return _run(scenario, _launch)


def run_in_one_process(scenario: Scenario) -> Result:
    """Run a job in real time, with all task managers in this process, connected over TCP."""
    return _run(scenario, lambda assignment, folder: trio.run(_host_all, assignment, folder))


def _run(scenario: Scenario, attempt: Attempt) -> Result:
    with tempfile.TemporaryDirectory(prefix="netstack-bench-") as folder:

        def launch(assignment: Assignment) -> list[Report]:
            try:
                return attempt(assignment, folder)
            except EOFError:
                raise LaunchError("a process has ended; check the memory", again=False) from None

        return run_distributed(scenario, launch, DirectoryStorage(folder))


async def _host_all(assignment: Assignment, folder: str) -> list[Report]:
    size, secret = len(task_managers(assignment.scenario)), fresh_secret()
    meshes = [Mesh(index, size) for index in range(size)]
    addresses = [await mesh.listen() for mesh in meshes]
    reports: dict[int, Report] = {}

    async def host(index: int) -> None:
        streams = await meshes[index].connect(addresses, secret)
        reports[index] = await run_task_manager(assignment, index, streams, DirectoryStorage(folder))

    async with trio.open_nursery() as nursery:
        for index in range(size):
            nursery.start_soon(host, index)
    return [reports[index] for index in range(size)]


def _launch(assignment: Assignment, folder: str) -> list[Report]:
    """Run one attempt: collect the addresses, send them to all processes, collect the reports."""
    context = multiprocessing.get_context("spawn")
    size, secret = len(task_managers(assignment.scenario)), fresh_secret()
    with ExitStack() as stack:
        pipes = []
        for index in range(size):
            ours, theirs = multiprocessing.Pipe()
            process = context.Process(
                target=_task_manager, args=(assignment, index, size, secret, folder, theirs), daemon=True
            )
            process.start()
            stack.callback(process.join)
            stack.callback(process.terminate)
            theirs.close()
            pipes.append(ours)
        addresses = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send(addresses)
        return [decode_report(pipe.recv()) for pipe in pipes]


def _task_manager(
    assignment: Assignment, index: int, size: int, secret: Secret, folder: str, pipe: Connection
) -> None:
    """Run one task manager; the main function of its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends it

    async def run() -> bytes:
        mesh = Mesh(index, size)
        pipe.send(await mesh.listen())
        addresses: Sequence[tuple[str, int]] = await trio.to_thread.run_sync(pipe.recv)
        streams = await mesh.connect(addresses, secret)
        return encode_report(await run_task_manager(assignment, index, streams, DirectoryStorage(folder)))

    with suppress(EOFError, BrokenPipeError):  # the parent process has ended
        pipe.send(trio.run(run))
