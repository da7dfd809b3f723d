"""Defects of whole jobs: restarts, faults, figures."""

from ..mutant import Mutant

JOBS = (
    Mutant(
        "heartbeat-never-missed",
        "netstack/faults/injection.py",
        "            self._missed_heartbeats.after(timeout, self._job.fail, cause)\n",
        "            pass\n",
        "a link that is cut for longer than the heartbeat timeout harms nobody",
        ("tests/netstack/test_fault_injection.py",),
    ),
    Mutant(
        "restarted-once-too-often",
        "netstack/jobs/restart_strategies.py",
        "        if self._restarts >= self._config.restart_attempts:\n",
        "        if self._restarts > self._config.restart_attempts:\n",
        "a job restarts once more than its strategy allows",
        ("tests/netstack/test_restart_strategies.py",),
    ),
    Mutant(
        "failure-rate-forgotten",
        "netstack/jobs/restart_strategies.py",
        "        if full and failed_at - failures[0] <= config.restart_failure_rate_interval_s:\n"
        "            return None\n",
        "",
        "a job restarts however often it fails in an interval",
        ("tests/netstack/test_restart_strategies.py",),
    ),
    Mutant(
        "restart-without-delay",
        "netstack/jobs/job.py",
        "        self.agenda.keep(now + delay, self._restart)\n",
        "        self.agenda.keep(now, self._restart)\n",
        "a job restarts without any delay",
        ("tests/netstack/test_job.py",),
    ),
    Mutant(
        "attempt-leaks",
        "netstack/jobs/attempt.py",
        "                stack.callback(producer.close)\n",
        "                pass\n",
        "what a connection is about to send is not given back at the end",
        ("tests/netstack/test_recovery.py",),
    ),
    Mutant(
        "figures-of-attempts-lost",
        "netstack/jobs/job.py",
        "        self._totals.add([subtask.sample() for subtask in attempt.subtasks], attempt.work)\n",
        "",
        "the counters of an attempt are forgotten when it is over",
        ("tests/netstack/test_job.py",),
    ),
    Mutant(
        "randomness-from-the-clock",
        "netstack/engine/randomness.py",
        "SeedSequence(seed).spawn(5)\n",
        "SeedSequence().spawn(5)\n",
        "two runs of one seed differ",
        ("tests/netstack/test_job.py",),
    ),
    Mutant(
        "ties-the-other-way-round",
        "netstack/engine/agenda.py",
        "        heapq.heappush(self._heap, (time, serial, callback, args))\n\n    def after",
        "        heapq.heappush(self._heap, (time, -serial, callback, args))\n\n    def after",
        "what is due at the same time comes in no order",
        ("tests/netstack/test_agenda.py",),
    ),
)
