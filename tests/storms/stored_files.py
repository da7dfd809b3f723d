"""What a run has to leave in its storage, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netstack import FileLayout, Job, StorageError, folder_of

from .troubled_storage import Untroubled

_SHOWN = 3
"""Files that a line names at most."""


def check_storage(job: Job, storage: FileLayout, files: Iterable[str]) -> Iterator[str]:
    """As many checkpoints as are to be retained are whole, the latest ones; no file is left over.

    `files` are the paths of all that is stored.
    """
    complete, wanted = storage.checkpoints(), retained_at_the_end(job)
    if complete != wanted:
        retained = job.scenario.config.retained_checkpoints
        yield f"checkpoints {complete} are stored, and of {retained} to be retained {wanted} should be"
    given_up = {restart.unusable_checkpoint_id for restart in job.restarts}
    needed = set[str]()
    for number in complete:
        if number not in given_up:
            yield from unreadable(storage, number)
        needed |= {f"{folder_of(number)}/", *storage.load(number).files}
    savepoints = {head.savepoint for head in job.recorder.checkpoints if head.status == "COMPLETED"}
    for path in [path for path in sorted(files) if not _is_needed(path, needed, savepoints)][:_SHOWN]:
        yield f"{path} is left behind, and no checkpoint needs it"


def _is_needed(path: str, needed: set[str], savepoints: set[str | None]) -> bool:
    folder, slash, _ = path.rpartition("/")
    metadata = path.endswith("_metadata") and f"{folder}/" in needed
    return metadata or path in needed or folder in savepoints or not slash


def retained_at_the_end(job: Job) -> list[int]:
    """The checkpoints that have to be stored when a run is over, by those that it has completed.

    What another run has left counts as the first. One that could not be restored is forgotten, and stays.
    """
    events = [
        (head.ended_at, head.checkpoint_id, True)
        for head in job.recorder.checkpoints
        if head.status == "COMPLETED" and head.savepoint is None and head.ended_at is not None
    ]
    events += [
        (restart.restarted_at, restart.unusable_checkpoint_id, False)
        for restart in job.restarts
        if restart.unusable_checkpoint_id is not None and restart.restarted_at is not None
    ]
    initial = [] if job.start is None else [job.start.initial.metadata.checkpoint_id]
    kept, forgotten = list(initial), list[int]()
    for _, number, completed in sorted(events):
        if completed:
            kept = [*kept, number][-job.scenario.config.retained_checkpoints :]
        else:
            kept.remove(number)
            forgotten.append(number)
    return sorted(number for number in {*kept, *forgotten} if number not in initial)


def unreadable(storage: FileLayout, number: int) -> Iterator[str]:
    """Yield what of a complete checkpoint cannot be read."""
    read = Untroubled(storage).read
    try:
        for snapshot in storage.load(number).subtasks:
            for handle in snapshot.handles:
                if handle.file is not None:
                    read(handle.file)
    except StorageError as error:
        yield f"checkpoint {number} is not whole: {error}"
