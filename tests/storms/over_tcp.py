"""Storms over TCP, in real time: each task manager has its own agenda and sockets, on the loopback.

A case allows less than in virtual time (`case_over_tcp`): a vertex runs in one task manager, and the only
faults are failures of subtasks and task managers at a time. Two runs of a case differ, so the checks are
those that hold in any order: output, order, memory, state at the barrier, and a fault for each failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import trio

from integration.emulating import ctrl_c_to_trio
from netstack import (
    Assignment,
    AtTime,
    FileLayout,
    JobFailedError,
    KillSubtask,
    KillTaskManager,
    LinkConditions,
    MemoryStorage,
    Mesh,
    Report,
    RestartStrategy,
    Result,
    StateBackendType,
    fresh_secret,
    run_distributed,
    run_task_manager,
    task_managers,
)

from .case import StormCase, StormVertex, Work
from .draw import ENDLESS, draw_case
from .expected import Lives, Run
from .one_storm import Outcome, digest_of, not_run, with_possible_faults
from .output_rules import CommitLog, check_order, check_output, unreadable
from .scenario import scenario_of
from .storage import StateWitness

DURATION_S = 60.0
"""Seconds that a job has; most take one."""

LATEST_FAULT_S = 0.6

_MOST_RECORDS = 60
_FASTER = 4


def case_over_tcp(seed: int) -> StormCase:
    """Return the case of a seed as it can be run over TCP, and in a second or two."""
    case = draw_case(seed)
    faults = tuple(
        replace(fault, when=AtTime(min(LATEST_FAULT_S, fault.when.time_s)))
        for fault in case.faults
        if isinstance(fault, KillSubtask | KillTaskManager) and isinstance(fault.when, AtTime)
    )
    return replace(
        case,
        vertices=tuple(map(_at_one_place, case.vertices)),
        faults=faults,
        config=replace(
            case.config,
            network_memory_max_bytes=None,
            state_backend=StateBackendType.HASHMAP,
            checkpoint_timeout_s=DURATION_S,
            tolerable_failed_checkpoints=ENDLESS,
            heartbeat_timeout_s=DURATION_S,
            restart_strategy=RestartStrategy.FIXED_DELAY,
            restart_attempts=20,
            restart_delay_s=0.05,
        ),
        link=LinkConditions(),
        duration_s=DURATION_S,
        patient=True,
        on_disk=False,
        trouble=(),
        neighbours=(),
        continuation=None,
    )


def _at_one_place(vertex: StormVertex) -> StormVertex:
    """A vertex in one task manager, with little to do; what goes by the clock of a run it does not do."""
    work = Work.PASS if vertex.work in (Work.REMEMBER, Work.COUNT) else vertex.work
    return replace(
        vertex,
        work=work,
        task_manager=vertex.managers[0],
        parallelism=min(4, vertex.parallelism),
        records=tuple(min(_MOST_RECORDS, number) for number in vertex.records),
        rates=tuple(_FASTER * rate for rate in vertex.rates),
        service_s=vertex.service_s / _FASTER,
    )


def run_over_tcp(seed: int) -> Outcome:
    """Run the storm of a seed over TCP, as far as it can be, and check it; what that raises is a problem."""
    try:
        return _run(seed)
    except Exception as error:
        return not_run(seed, f"{type(error).__name__}: {error}")


def _run(seed: int) -> Outcome:
    started, case, log = perf_counter(), case_over_tcp(seed), CommitLog()
    storage, reports = MemoryStorage(), list[Report]()

    def launch(assignment: Assignment) -> list[Report]:
        run = ctrl_c_to_trio(trio.run)
        new = run(_run_processes, assignment, storage, restrict_keyboard_interrupt_to_checkpoints=True)
        reports.extend(new)
        return new

    with TemporaryDirectory(prefix="netstack-storm-") as folder:
        witness = StateWitness(lambda: 0.0, storage, None)
        scenario = with_possible_faults(scenario_of(case, log.commit, witness, Path(folder)))
        try:
            result = run_distributed(scenario, launch, storage)
        except JobFailedError as error:
            result = error.result
    problems = list(problems_of(case, log, result, storage, reports))
    return outcome_of(case, log, result, tuple(problems), perf_counter() - started)


async def _run_processes(assignment: Assignment, storage: MemoryStorage) -> list[Report]:
    """Run one attempt, whose task managers are trio tasks that share nothing but the storage."""
    size, secret = len(task_managers(assignment.scenario)), fresh_secret()
    meshes = [Mesh(index, size) for index in range(size)]
    addresses = [await mesh.listen() for mesh in meshes]
    reports: dict[int, Report] = {}

    async def run(index: int) -> None:
        streams = await meshes[index].connect(addresses, secret)
        reports[index] = await run_task_manager(assignment, index, streams, storage)

    async with trio.open_nursery() as nursery:
        for index in range(size):
            nursery.start_soon(run, index)
    return [reports[index] for index in range(size)]


def problems_of(
    case: StormCase,
    log: CommitLog,
    result: Result,
    storage: FileLayout,
    reports: Sequence[Report],
    *,
    explained: Sequence[str] = (),
) -> Iterator[str]:
    """Yield what is wrong with a run over TCP; `explained`: what it may fail for beside its faults."""
    known = [*map(str, case.faults), *explained]
    leaked = sum(report.leaked_segments for report in reports)
    if leaked:
        yield f"{leaked} segments were not given back"
    causes = [restart.cause for restart in result.restarts] + ([result.failure] if result.failure else [])
    for cause in causes:
        if not any(each in cause for each in known):
            yield f"failed for no good reason: {cause}"
    ended = result.failure is None and result.emulated_seconds < case.duration_s
    stands_still = case.may_stand_still({each.name: each.parallelism for each in case.vertices})
    if not ended and result.failure is None and not stands_still:
        yield f"did not end within {case.duration_s:g} s, and nothing keeps it from that"
    complete, retained = storage.checkpoints(), case.config.retained_checkpoints
    if len(complete) > retained:
        yield f"checkpoints {complete} are stored, and {retained} are to be retained"
    for number in complete:
        yield from unreadable(storage, number)
    parallelism = {vertex.name: vertex.parallelism for vertex in case.vertices}
    lives = Lives(runs=(Run(parallelism=parallelism, restarts=result.restarts),))
    yield from check_output(case, log, ended, lives)
    yield from check_order(case, list(log.transactions.values()), lives.restarts)


def outcome_of(
    case: StormCase, log: CommitLog, result: Result, problems: tuple[str, ...], wall_s: float
) -> Outcome:
    """Return what became of a run over TCP."""
    output = digest_of(sorted(log.output.items()))
    return Outcome(
        seed=case.seed,
        problems=problems,
        end="gave up" if result.failure is not None else "ended",
        emulated_s=result.emulated_seconds,
        causes=tuple(restart.cause for restart in result.restarts),
        restarts=len(result.restarts),
        of_regions=0,
        restored_bytes=sum(restart.persisted_bytes for restart in result.restarts),
        checkpoints=Counter(each.failure or each.status for each in result.checkpoints),
        fired=tuple(f"{fault.what} at {fault.t:.4f} s" for fault in result.faults),
        records=log.output.total(),
        digest=output,
        output=output,
        wall_s=wall_s,
    )
