"""Defects of whole jobs: restarts, faults, figures."""

from ..mutant import Mutant

JOBS = (
    Mutant(
        "heartbeat-never-missed",
        "netstack/faults/injection.py",
        "            cut.timer = self._agenda.cancellable_after(timeout, "
        "self._job.fail_link, cut.ends, cause)\n",
        "            del cause\n",
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
        "        self.agenda.keep(now + delay + deployed_s, self._restart, restart)\n",
        "        self.agenda.keep(now + deployed_s, self._restart, restart)\n",
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
        "        self._totals.add(attempt.samples(), attempt.work)\n",
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
    Mutant(
        "checkpoints-while-a-region-is-down",
        "netstack/jobs/region_failover.py",
        "        job.coordinator.suspend(set(region))\n",
        "        pass\n",
        "checkpoints go on while the tasks of a region are missing",
        ("tests/netstack/test_region_failover.py",),
    ),
    Mutant(
        "region-begins-empty",
        "netstack/jobs/region_failover.py",
        "        if metadata is None:\n            self._attempt.open_region(number)\n            return\n",
        "        if True:\n            self._attempt.open_region(number)\n            return\n",
        "a region restarts without its state",
        ("tests/netstack/test_region_failover.py",),
    ),
    Mutant(
        "fraction-ignored",
        "netstack/jobs/channel_choice.py",
        "    return selector if edge.fraction == 1 else Fraction(edge.fraction, selector)\n",
        "    return selector\n",
        "all records go over an edge that takes a share of them",
        ("tests/netstack/test_real_jobs.py",),
    ),
    Mutant(
        "tasks-deployed-in-no-time",
        "netstack/jobs/deployment.py",
        "    return costs.deploy_s + costs.deploy_per_task_s * max(managers.values(), default=0)\n",
        "    return 0.0\n",
        "to deploy tasks takes no time",
        ("tests/netstack/test_region_failover.py",),
    ),
)
