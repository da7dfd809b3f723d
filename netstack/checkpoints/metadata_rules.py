"""What metadata of a checkpoint has to say to be that of one: numbers that fit together, and no vertex twice.

Whoever goes on from a checkpoint goes by these numbers: key groups are dealt out by them, and lists are as
long as they say. That files are as long as handles say is seen when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..scenarios.scenario import MAX_PARALLELISM
from ..state.snapshots import CHANNEL_STATE, CheckpointMetadata, StateHandle, StateKind, SubtaskSnapshot

MOST_BYTES = (1 << 63) - 1
"""Of all state together: what a file system can hold, and what a number of 64 bits can say."""


def metadata_problem(metadata: CheckpointMetadata) -> str | None:
    """Return what is wrong with metadata, in one line; None where nothing is."""
    return next(_problems(metadata), None)


def _problems(metadata: CheckpointMetadata) -> Iterator[str]:
    if not 0 <= metadata.checkpoint_id <= MOST_BYTES:
        yield f"{metadata.checkpoint_id} is no checkpoint id"
    for vertex, subtasks in metadata.parallelism.items():
        if not 1 <= subtasks <= MAX_PARALLELISM:
            yield f"{vertex!r} has the parallelism {subtasks}; it is from 1 to {MAX_PARALLELISM}"
            return
    for vertex, most in metadata.max_parallelism.items():
        least = metadata.parallelism.get(vertex, 1)
        if not least <= most <= MAX_PARALLELISM:
            bounds = f"it is from {least} to {MAX_PARALLELISM}"
            yield f"{vertex!r} has the maximum parallelism {most}; {bounds}"
            return
    yield from _about_subtasks(metadata)
    if metadata.size > MOST_BYTES:
        yield f"its state has {metadata.size} bytes"


def _about_subtasks(metadata: CheckpointMetadata) -> Iterator[str]:
    seen = set()
    for snapshot in metadata.subtasks:
        where = f"subtask {snapshot.subtask} of {snapshot.vertex!r}"
        if not 0 <= snapshot.subtask < metadata.parallelism.get(snapshot.vertex, 0):
            yield f"{where} is none of the job"
            return
        if (snapshot.vertex, snapshot.subtask) in seen:
            yield f"{where} is in it twice"
        seen.add((snapshot.vertex, snapshot.subtask))
        for handle in snapshot.handles:
            if what := _about_handle(handle) or _about_place(metadata, snapshot, handle):
                yield f"{handle.kind} state {handle.name!r} of {where} {what}"


def _about_handle(handle: StateHandle) -> str | None:
    """What is wrong with the numbers of a handle by itself."""
    numbers = [handle.size, handle.offset] + ([] if handle.file is None else [handle.file.size])
    if not all(0 <= number <= MOST_BYTES for number in numbers):
        return f"is at {handle.offset} and has {handle.size} bytes"
    if handle.key_groups is not None:
        first, last = handle.key_groups
        if not 0 <= first <= last < MAX_PARALLELISM:
            return f"is of the key groups {first} to {last}"
    return None


def _about_place(metadata: CheckpointMetadata, snapshot: SubtaskSnapshot, handle: StateHandle) -> str | None:
    """What is wrong with the channel that data in flight is said to be of."""
    if handle.kind not in CHANNEL_STATE:
        return None
    right = handle.exchange >= 0 and handle.channel >= 0
    if metadata.exchanges is not None and right:
        own, other = (1, 0) if handle.kind is StateKind.INPUT_CHANNEL else (0, 1)
        ends = [each[other] for each in metadata.exchanges if each[own] == snapshot.vertex]
        right = handle.exchange < len(ends)
        right = right and handle.channel < metadata.parallelism.get(ends[handle.exchange], 0)
    place = f"exchange {handle.exchange}, channel {handle.channel}"
    return None if right else f"is of {place}, which there is not"
