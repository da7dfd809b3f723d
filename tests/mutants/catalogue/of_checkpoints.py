"""Defects of the coordinator, of what it stores, and of recovery."""

from ..mutant import Mutant

_COORDINATOR = "netstack/checkpoints/coordinator.py"
_COORDINATOR_TESTS = ("tests/netstack/test_checkpoint_coordinator.py",)
_SCHEDULER = "netstack/checkpoints/scheduler.py"
_STORE = "netstack/checkpoints/completed_store.py"

CHECKPOINTS = (
    Mutant(
        "request-does-nothing",
        _COORDINATOR,
        "        refused = self._scheduler.request(RequestKind.USER)\n",
        "        refused = None\n",
        "a checkpoint that a user asks for is never taken",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "pause-ignored",
        _SCHEDULER,
        "        return PutOff(until) if request.periodic and now < until else request\n",
        "        return request\n",
        "the least pause between two checkpoints is not kept",
        ("tests/netstack/test_request_decider.py",),
    ),
    Mutant(
        "concurrent-without-limit",
        _SCHEDULER,
        "        if pending >= self._max_concurrent and not forced:\n",
        "        if pending > self._max_concurrent and not forced:\n",
        "one checkpoint more than allowed goes on at once",
        ("tests/netstack/test_request_decider.py",),
    ),
    Mutant(
        "interval-doubled",
        _SCHEDULER,
        "        self._start_timer(due + self._interval)  #",
        "        self._start_timer(due + 2 * self._interval)  #",
        "checkpoints are taken half as often as they should be",
        ("tests/netstack/test_request_decider.py",),
    ),
    Mutant(
        "timeout-doubled",
        "netstack/checkpoints/expiry.py",
        "        return checkpoint.triggered_at + self._timeout_s\n",
        "        return checkpoint.triggered_at + 2 * self._timeout_s\n",
        "a checkpoint expires after twice its time",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "complete-without-the-last",
        _COORDINATOR,
        "report, self._agenda.now) and not checkpoint.awaited:\n",
        "report, self._agenda.now) and len(checkpoint.awaited) <= (number % 3 == 0):\n",
        "each third checkpoint is complete without its last acknowledgement",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "older-not-subsumed",
        _COORDINATOR,
        "                if older.request is None:\n"
        "                    self._fail(older, FailureReason.CHECKPOINT_SUBSUMED)\n",
        "                pass\n",
        "an older checkpoint goes on after a newer one is complete",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "failed-not-deleted",
        _COORDINATOR,
        "reason, self._agenda.now\n        self._discard(checkpoint)\n",
        "reason, self._agenda.now\n",
        "the files of a checkpoint that has failed stay",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "late-files-not-deleted",
        _COORDINATOR,
        "                self.store.delete_unused(report.snapshot.new_files)\n",
        "                pass\n",
        "the files of an acknowledgement that comes too late stay",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "tasks-not-told",
        _COORDINATOR,
        "            self._tell_tasks(ControlMessage.COMPLETED, number)\n",
        "            pass\n",
        "tasks do not hear that a checkpoint is complete",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "abort-not-told",
        _COORDINATOR,
        "        self._tell_tasks(ControlMessage.ABORTED, number)\n",
        "        pass\n",
        "tasks do not hear that a checkpoint was given up",
        _COORDINATOR_TESTS,
    ),
    Mutant(
        "one-retained",
        _STORE,
        "        if len(self._checkpoints) > self._retained:\n",
        "        if len(self._checkpoints) > 1:\n",
        "one checkpoint is retained, whatever is asked",
        ("tests/netstack/test_completed_store.py",),
    ),
    Mutant(
        "nothing-subsumed-is-deleted",
        _STORE,
        "self.discard(oldest.checkpoint_id, self._registry.unregister(oldest.checkpoint_id))",
        "pass",
        "checkpoints that are not retained any more stay in the storage",
        ("tests/netstack/test_completed_store.py",),
    ),
    Mutant(
        "shared-files-deleted-in-use",
        "netstack/checkpoints/shared_registry.py",
        "            if not entry.users:\n",
        "            if len(entry.users) <= 1:\n",
        "a shared file is deleted that one checkpoint still uses",
        ("tests/netstack/test_shared_registry.py",),
    ),
    Mutant(
        "failures-not-counted",
        "netstack/checkpoints/failures.py",
        "        self.in_a_row += 1\n        if self.in_a_row <= self.tolerable:\n",
        "        if self.in_a_row <= self.tolerable:\n",
        "a job goes on however many checkpoints fail in a row",
        ("tests/netstack/test_checkpoint_failures.py",),
    ),
    Mutant(
        "output-state-not-restored",
        "netstack/checkpoints/recovery.py",
        "        yield from restore_subpartition(partition.pool, "
        "partition.subpartitions[handle.channel], in_flight)\n",
        "        pass\n",
        "what was in flight at the producers is lost by a restart",
        ("tests/netstack/test_recovery.py",),
    ),
)
