"""Defects of tasks: sources, operators, sinks, and what they do for checkpoints."""

from ..mutant import Mutant

TASKS = (
    Mutant(
        "position-too-far",
        "netstack/tasks/source_subtask.py",
        "            self.state.operator.put(POSITION, [self.position])\n",
        "            self.state.operator.put(POSITION, [self._read_records])\n",
        "a source notes as sent what it has only read",
        ("tests/netstack/test_recovery.py",),
    ),
    Mutant(
        "source-deaf-to-its-outputs",
        "netstack/tasks/source_subtask.py",
        "            elif not (self._legacy or self.available):\n",
        "            elif not (self._legacy or self.available or self._index % 2):\n",
        "a source now and then emits while its outputs are not available",
        ("tests/netstack/test_recovery.py",),
    ),
    Mutant(
        "selectivity-rounded",
        "netstack/tasks/emission.py",
        "        self._selectivity = selectivity\n",
        "        self._selectivity = float(round(selectivity))\n",
        "a selectivity counts as the nearest whole number",
        ("tests/netstack/test_multiple_inputs.py",),
    ),
    Mutant(
        "owed-is-forgotten",
        "netstack/tasks/emission.py",
        "        self._owed = sum(context.operator.get(self._state_name))",
        "        self._owed = 0.0",
        "what an emission owes is not there again after a restart",
        ("tests/netstack/test_multiple_inputs.py",),
    ),
    Mutant(
        "owed-is-kept",
        "netstack/tasks/emission.py",
        "            self._owed = max(0.0, owed - count)\n",
        "            self._owed = max(0.0, owed - count) or owed\n",
        "an emission that has given all it owes goes on as if it had not",
        ("tests/netstack/test_multiple_inputs.py",),
    ),
    Mutant(
        "block-reversed-at-the-sink",
        "netstack/tasks/transactions.py",
        "        self._open.extend(map(bytes, block.payloads()))\n",
        "        self._open.extend(reversed([*map(bytes, block.payloads())]))\n",
        "the records of each block come to a sink in reverse",
        ("tests/netstack/test_subtask_checkpoints.py",),
    ),
    Mutant(
        "committed-before-the-checkpoint",
        "netstack/tasks/transactions.py",
        "            self._pending[checkpoint_id] = self._open\n            self._open = []\n",
        "            self._pending[checkpoint_id] = self._open\n            self._open = []\n"
        "            self._commit_up_to(checkpoint_id)\n",
        "a sink commits when its part of a checkpoint is taken, before that is complete",
        ("tests/netstack/test_recovery.py",),
    ),
    Mutant(
        "sealed-not-committed-again",
        "netstack/tasks/transactions.py",
        "            self._commit(Transaction(vertex, subtask, checkpoint_id, tuple(records)))\n",
        "            pass\n",
        "what was sealed and not committed is lost by a restart",
        ("tests/netstack/test_recovery.py",),
    ),
    Mutant(
        "giving-up-not-passed-on",
        "netstack/tasks/subtask_checkpoints.py",
        "        if given_up:\n"
        "            subtask.broadcast(CancelCheckpointMarker(number))\n            return 0.0\n",
        "        if given_up:\n            return 0.0\n",
        "those downstream are not told that a checkpoint was given up",
        ("tests/netstack/test_subtask_checkpoints.py",),
    ),
    Mutant(
        "upload-instant",
        "netstack/tasks/subtask_checkpoints.py",
        "        if duration := storing_s(handles, self._environment.costs):\n"
        "            self._environment.scope.at(since + duration, self._uploaded, running)\n"
        "        else:\n            self._uploaded(running)\n",
        "        self._uploaded(running)\n",
        "to store state takes no time",
        ("tests/netstack/test_subtask_checkpoints.py",),
    ),
    Mutant(
        "aborted-part-not-deleted",
        "netstack/tasks/subtask_checkpoints.py",
        "            running.storage.delete(running.written)\n",
        "            pass\n",
        "what a task had stored for a checkpoint that was given up stays",
        ("tests/netstack/test_subtask_checkpoints.py",),
    ),
    Mutant(
        "unconsumed-not-kept",
        "netstack/tasks/operator_subtask.py",
        "        return [self._serving.rest(channel), channel.begun_record]\n",
        "        return [self._serving.rest(channel)]\n",
        "the begin of a record that a task has read is missing in an unaligned checkpoint",
        ("tests/netstack/test_in_flight.py",),
    ),
    Mutant(
        "record-processed-too-early",
        "netstack/tasks/outbox.py",
        "        self._ahead = operator.one_to_one\n",
        "        self._ahead = True\n",
        "an operator with state sees records before their turn",
        ("tests/netstack/test_keyed_operators.py",),
    ),
    Mutant(
        "end-not-acknowledged",
        "netstack/tasks/operator_subtask.py",
        "        channel.acknowledge_all_records()\n",
        "        pass\n",
        "a producer never hears that its last record was processed",
        ("tests/netstack/test_job.py",),
    ),
)
