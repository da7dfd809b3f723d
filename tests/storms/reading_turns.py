"""Tasks read their gates in turns, and gates their channels, as long as several stay readable.

A gate tells each item that its task polls to its watcher, which counts here: how often a channel was read
while another one waited all the time, and the same for the gates of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flowcontrol import Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings
from netstack import InputGate

from .storm_operators import Broken

_OVERTAKEN = 4
"""Turns in one checkpoint where barriers overtake: a channel that had one goes to the end of the line."""

_GATES = 4
"""Turns of one gate while another one waits: the first ones may find nothing in a channel after all."""


class GateTurns(DebloatPolicy):
    """Watches what is polled from one gate of a task, and tells `others`, a policy that watches it, too."""

    def __init__(self, gate: InputGate, task: TaskTurns, others: DebloatPolicy | None, most: int) -> None:
        super().__init__(DebloatSettings())
        self._checkpoint_id = -1
        self._gate = gate
        self._task = task
        self._others = others
        self._most = most
        self._passed: dict[Any, dict[Any, int]] = {}  # by waiting channel: how often each other one was read

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Size no buffers: it only watches."""
        return ()

    def polled(self, channel: int, size: int) -> None:
        """Count a turn of a channel.

        Raises:
            Broken: another channel, or another gate, has waited for too many turns.
        """
        if self._others is not None:
            self._others.polled(channel, size)
        gate, checkpoint_id = self._gate, self._task.checkpoint_id
        if checkpoint_id != self._checkpoint_id:
            self._checkpoint_id = checkpoint_id
            self._passed.clear()
        read, before, passed = gate.channels[channel], self._passed, dict[Any, dict[Any, int]]()
        for waiting in gate._ready:
            if waiting is read:
                continue
            counts = before.get(waiting, {})
            counts[read] = counts.get(read, 0) + 1
            if counts[read] > self._most:
                text = f"channel {channel} is read {counts[read]} times while channel {waiting.index} waits"
                raise Broken(f"the gate from {gate.name}: {text}")
            passed[waiting] = counts
        self._passed = passed
        self._task.polled(gate)


class TaskTurns:
    """The turns of the gates of one task."""

    def __init__(self, subtask: Any) -> None:
        self._subtask = subtask
        self._gates: list[InputGate] = subtask.gates
        self._polls = dict.fromkeys(self._gates, 0)
        self._servings = {
            gate: each.servings[gate] for each in getattr(subtask, "_task_inputs", ()) for gate in each.gates
        }
        self._records: dict[InputGate, int] = {}
        self._passed: dict[InputGate, dict[InputGate, tuple[int, object]]] = {}

    @property
    def checkpoint_id(self) -> int:
        """The newest checkpoint that the task knows of."""
        return int(self._subtask.checkpoints.handler.current_checkpoint_id)

    def polled(self, gate: InputGate) -> None:
        """Count a turn of a gate, unless it only goes on with a record that is longer than a buffer.

        Raises:
            Broken: another gate has waited for too many turns, and nothing of it was served.
        """
        if len(self._gates) == 1:
            return
        self._polls[gate] += 1
        self._passed.pop(gate, None)
        serving = self._servings.get(gate)
        if serving is not None:
            before, self._records[gate] = self._records.get(gate, -1), serving.records
            if serving.records == before:
                return
        for other in self._gates:
            if other is gate:
                continue
            if not other._ready:
                self._passed.pop(other, None)
                continue
            counts = self._passed.setdefault(other, {})
            turns, progress = counts.get(gate, (0, None))
            now = self._progress(other)
            turns = turns + 1 if progress == now else 1
            if turns > _GATES:
                text = f"the gate from {gate.name} is read {turns} times while that from {other.name} waits"
                raise Broken(f"{self._subtask}: {text}")
            counts[gate] = turns, now

    def _progress(self, gate: InputGate) -> object:
        serving = self._servings.get(gate)
        return self._polls[gate], *(() if serving is None else (serving.records, serving.left))


def watch_turns(attempt: Any, *, overtakes: bool) -> None:
    """Watch the turns of all tasks of an attempt that are not watched; `overtakes`: barriers may do so."""
    for subtask in attempt.subtasks:
        gates = getattr(subtask, "gates", ())
        if gates and not any(isinstance(gate._watcher, GateTurns) for gate in gates):
            task = TaskTurns(subtask)
            for gate in gates:
                gate._watcher = GateTurns(gate, task, gate._watcher, _OVERTAKEN if overtakes else 1)
