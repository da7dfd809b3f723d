"""All processes of a distributed job in one trio program: what differs from real ones is the interpreter.

They share nothing but the checkpoint storage, and talk over TCP on the loopback interface.
"""

from __future__ import annotations

import trio

from netstack import (
    Assignment,
    FileLayout,
    Mesh,
    Report,
    decode_report,
    encode_report,
    fresh_secret,
    run_task_manager,
    task_managers,
)
from netstack.cluster.distributed_run import Launch


def launch_locally(
    storage: FileLayout, seen: list[list[Report]] | None = None, initial: FileLayout | None = None
) -> Launch:
    """Launch attempts here; the reports of each are added to `seen`."""

    def launch(assignment: Assignment) -> list[Report]:
        reports = trio.run(run_processes, assignment, storage, initial)
        if seen is not None:
            seen.append(reports)
        return reports

    return launch


async def run_processes(
    assignment: Assignment, storage: FileLayout, initial: FileLayout | None = None
) -> list[Report]:
    """Run one attempt in a process for each task manager, and return what they report, as it is sent."""
    size, secret = len(task_managers(assignment.scenario)), fresh_secret()
    meshes = [Mesh(index, size) for index in range(size)]
    addresses = [await mesh.listen() for mesh in meshes]
    reports: dict[int, Report] = {}

    async def run(index: int) -> None:
        streams = await meshes[index].connect(addresses, secret)
        report = await run_task_manager(assignment, index, streams, storage, initial=initial)
        reports[index] = decode_report(encode_report(report))

    async with trio.open_nursery() as nursery:
        for index in range(size):
            nursery.start_soon(run, index)
    return [reports[index] for index in range(size)]
