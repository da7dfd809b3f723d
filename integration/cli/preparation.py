"""Loading a user's scenario, with warnings about its options."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from buffers import InsufficientBuffers
from netstack import (
    OPTIONS,
    ClaimMode,
    FileLayout,
    InitialCheckpoint,
    Scenario,
    ScenarioError,
    SourceError,
    StorageError,
    format_size,
    option_notices,
    scenario_problems,
)

from ..base.file_kinds import FileKind
from ..base.reading import load_scenario, one_line
from ..runs.seeds import open_sources, reads_paths
from ..show.terminal.console import say, to_stderr
from ..show.terminal.progress import activity
from .accepted_kinds import require_kind
from .arguments import Flag, usage_error
from .option_names import Sets

if TYPE_CHECKING:
    from ..storage.directory import DirectoryStorage

_DIRECTORY_KEY = f"flink.{OPTIONS['checkpoint_dir'].name}"

_NO_CHECKPOINT = 0
"""An id that no checkpoint of a run has, because ids begin with 1."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Checkpoint from which a run continues, and the owner of that checkpoint from then on."""

    from_checkpoint: str | None = None
    """Start from a checkpoint of an earlier run: a folder chk-N, or the latest one in a directory."""
    from_savepoint: str | None = None
    """Start from the savepoint in this folder."""
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    """Owner of the checkpoint afterwards: you (no-claim, legacy), or the run, which deletes it (claim)."""
    allow_non_restored_state: Annotated[Flag, Sets("leaves_state_out")] = False
    """Ignore the state of vertices that the job no longer has, instead of refusing to start."""


FROM_NOTHING = Begin()
"""Start without a checkpoint."""


def load_runnable(
    file: Path,
    seed: int | None = None,
    *,
    stores: bool = False,
    policy: str | None = None,
    allow_code: bool = False,
) -> Scenario:
    """Read a scenario that this version can run, and print notices about its options to stderr.

    `stores`: whether the run writes checkpoints to the directory in the scenario. `seed` and `policy` replace
    those of the scenario. With `allow_code`, a policy that the file names is imported.

    Raises:
        FileError: the file is not a scenario.
        ScenarioError: the scenario is invalid, or needs something that is not installed. There is a line for
            each mistake.
    """
    require_kind(file, FileKind.SCENARIO, FileKind.RESULT)
    notices: list[str] = []
    scenario = load_scenario(file, policy=policy, allow_code=allow_code, notices=notices)
    for notice in notices:
        say(f"{file}: {notice}")
    if seed is not None:
        scenario = dataclasses.replace(scenario, seed=seed)
    mistakes = scenario_problems(scenario)
    if mistakes:
        raise ScenarioError([f"{file}: {key}: {message}" for key, message in mistakes])
    for key, message in option_notices(scenario):
        place = "--policy" if key == "policy" and policy is not None else f"{file}: {key}"
        say(f"{place}: {message}")
    if _writes_files(scenario) and not stores:
        say(
            f"{file}: {_DIRECTORY_KEY}: has no effect here, since the runs of the different seeds would "
            "write the same files"
        )
    return scenario


@contextmanager
def checkpoints_of(
    scenario: Scenario, file: Path, begin: Begin
) -> Iterator[tuple[FileLayout | None, InitialCheckpoint | None]]:
    """Yield the checkpoint storage of a scenario (None: in memory), and the checkpoint to start from.

    This run owns the directory during the block. A test file is written and deleted first, so that an
    unusable directory is reported before the run.

    Raises:
        ScenarioError: the directory is not writable, belongs to another run, or already has checkpoints,
            which are not overwritten; or `begin` names no checkpoint that can be restored.
    """
    with ExitStack() as stack:
        storage = _own_directory(scenario, file, stack) if _writes_files(scenario) else None
        initial = _initial(begin)
        if storage is None:
            yield _for_savepoints(scenario, file), initial
            return
        if initial is not None:
            in_place = isinstance(initial.storage, type(storage)) and initial.storage.is_same_place(storage)
            initial = initial._replace(in_place=in_place)
        there = storage.present()
        if there and (initial is None or not _lies_in(initial, storage)):
            problem = (
                f"{storage.root} contains chk-{there[-1]} of an earlier run; continue from it with "
                "--from-checkpoint, give a directory without checkpoints, or empty this one"
            )
            raise ScenarioError([f"{file}: {_DIRECTORY_KEY}: {problem}"])
        yield storage, initial


def _for_savepoints(scenario: Scenario, file: Path) -> FileLayout | None:
    """Return the storage of savepoints for a job with checkpoints in memory."""
    if not scenario.savepoints:
        return None
    from ..storage.directory import SavepointsInDirectories

    if scenario.config.savepoint_dir is None:
        nowhere = [number for number, each in enumerate(scenario.savepoints) if each.directory is None]
        if nowhere:
            options = " or ".join(OPTIONS[field].name for field in ("savepoint_dir", "checkpoint_dir"))
            problem = (
                f"has no directory for its files; give the savepoint a directory, or set {options} of the job"
            )
            raise ScenarioError([f"{file}: savepoints_at[{nowhere[0]}]: {problem}"])
    return SavepointsInDirectories()


def _own_directory(scenario: Scenario, file: Path, stack: ExitStack) -> DirectoryStorage:
    # Imported here, because few scenarios need it and it takes a while.
    from ..storage.directory import DirectoryStorage

    directory = str(scenario.config.checkpoint_dir)
    try:
        storage = DirectoryStorage(directory)
        stack.enter_context(storage.exclusive())
        storage.write(_NO_CHECKPOINT, "is-writable", b"")
        storage.discard(_NO_CHECKPOINT)
    except StorageError as error:
        reason = f"{directory}: cannot store checkpoints: {one_line(error)}"
        raise ScenarioError([f"{file}: {_DIRECTORY_KEY}: {reason}"]) from None
    if not storage.is_local:
        say(f"{file}: {_DIRECTORY_KEY}: cannot be locked; make sure that no other run uses this directory")
    return storage


def _initial(begin: Begin) -> InitialCheckpoint | None:
    """Return the checkpoint that the command line names as the start of the run."""
    if begin.from_checkpoint is not None and begin.from_savepoint is not None:
        raise usage_error("run", "give --from-checkpoint or --from-savepoint, not both")
    if begin.from_savepoint is not None:
        path, option = begin.from_savepoint, "--from-savepoint"
    elif begin.from_checkpoint is not None:
        path, option = begin.from_checkpoint, "--from-checkpoint"
    else:
        _require_no_start_options(begin)
        return None
    if not path:
        raise usage_error("run", f"{option} is empty; give the path of a checkpoint, or of a folder of them")
    # Imported here, because few runs need it and it takes a while.
    from ..storage.checkpoint_list import find_checkpoint

    try:
        initial = find_checkpoint(path, say)
    except StorageError as error:
        raise usage_error("run", f"{option}: {one_line(error)}") from None
    return initial._replace(claim_mode=begin.claim_mode, leaves_state_out=begin.allow_non_restored_state)


def _require_no_start_options(begin: Begin) -> None:
    """Reject options about the checkpoint to start from in a run that starts without one."""
    for option, given in (
        ("--claim-mode", begin.claim_mode is not ClaimMode.NO_CLAIM),
        ("--allow-non-restored-state", begin.allow_non_restored_state),
    ):
        if given:
            raise usage_error(
                "run",
                f"{option} can be used only with --from-savepoint; add --from-savepoint, or remove {option}",
            )


def _lies_in(initial: InitialCheckpoint, storage: DirectoryStorage) -> bool:
    """Whether the initial checkpoint or savepoint lies in a directory."""
    from ..storage.directory import DirectoryStorage

    if initial.in_place:
        return True
    folder = os.path.dirname(initial.path if "://" in initial.path else os.path.realpath(initial.path))
    return storage.is_same_place(DirectoryStorage(folder))


def _writes_files(scenario: Scenario) -> bool:
    return scenario.stores_state and scenario.config.stores_checkpoints_in_files


@contextmanager
def opened(scenario: Scenario, file: Path) -> Iterator[Scenario]:
    """Open the files that sources read. Errors begin with the name of the scenario file.

    Raises:
        ScenarioError: a source cannot be read, the job does not fit its contents, or its network memory
            does not suffice.
    """
    try:
        with ExitStack() as stack:
            if reads_paths(scenario):
                with activity(f"{scenario.name}: Spark is reading the sources", to_stderr()):
                    scenario = stack.enter_context(open_sources(scenario))
                say(f"{scenario.name}: the sources have been read")
            yield scenario
    except (InsufficientBuffers, SourceError) as error:
        raise ScenarioError([f"{file}: {one_line(error)}"]) from None
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        size = format_size(scenario.config.segment_bytes)
        message = (
            f"is {size}; this machine does not have enough memory for the job's buffers; make them smaller"
        )
        raise ScenarioError([f"{file}: flink.{OPTIONS['segment_bytes'].name}: {message}"]) from None


def at_load_option(scenario: Scenario, load: float) -> Scenario:
    """Return a scenario at a multiple of its load, the option ``--load``.

    Raises:
        UsageError: the load is not a number above 0.
        JobFailedError: a source emits as fast as possible, and the run that shows its rate failed.
    """
    if load == 1:
        return scenario
    from ..advise.diagnose.headroom import with_load  # imported here, because pyarrow takes a while

    return with_load(scenario, load)
