"""What is said where a cluster has too few slots, or none, of a session that is played here."""

# ruff: noqa: N802, N815 - names of Spark's
from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from integration.base.errors import ShuffleError
from integration.spark import failure_cause
from integration.spark.driver import count_slots
from integration.spark.job_on_spark import require_slots as require_slots_of_a_job
from integration.spark.shuffling.api import require_slots
from netstack import SourceError

NO_EXECUTOR = (
    r"^no executor of Spark has registered within 0\.2 s; check on the master's page .*"
    r" with spark\.scheduler\.maxRegisteredResourcesWaitingTime$"
)


class RunningSession:
    """A session on a cluster that began long ago, and its SparkContext in Java, as far as they are asked."""

    def __init__(self, slots: int, waits: str = "200ms") -> None:
        self.sparkContext = self._jsc = self._jvm = self
        self.org = self.apache = self.spark = self.util = self.Utils = self
        self.slots = slots
        self.waits = waits

    def sc(self) -> RunningSession:
        return self

    conf = resourceProfileManager = defaultResourceProfile = sc

    def isLocal(self) -> bool:
        return False

    def startTime(self) -> int:
        return 0

    def getTimeAsMs(self, option: str, default: str) -> int:
        assert (option, default) == ("spark.scheduler.maxRegisteredResourcesWaitingTime", "30s")
        return int(self.waits.removesuffix("ms"))

    def maxNumConcurrentTasks(self, profile: object) -> int:
        return self.slots

    def isDynamicAllocationEnabled(self, conf: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("check", "error"), [(require_slots, ShuffleError), (require_slots_of_a_job, SourceError)]
)
def test_a_cluster_that_gives_no_executor(check: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=NO_EXECUTOR):
        check(RunningSession(0), 4)


def test_a_cluster_with_too_few_slots() -> None:
    assert require_slots(RunningSession(3), 4) == 3  # type: ignore[arg-type]
    assert require_slots(RunningSession(3), 2) == 2  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"has slots for only 3; raise spark\.executor\.instances"):
        require_slots_of_a_job(RunningSession(3), 4)  # type: ignore[arg-type]
    assert count_slots(RunningSession(3), 3) == 3  # type: ignore[arg-type]


EXECUTOR_ENDED = (
    "Job aborted due to stage failure: ExecutorLostFailure (executor 0 exited caused by one of the running "
    "tasks) Reason: Command exited with code 52"
)


@pytest.mark.parametrize(
    ("is_local", "message", "setting"),
    [
        (False, EXECUTOR_ENDED, "spark.executor.memory"),
        (True, "org.apache.arrow.memory.OutOfMemoryException: cannot allocate", "spark.driver.memory"),
    ],
)
def test_java_without_memory_names_the_option_that_gives_it_more(
    is_local: bool, message: str, setting: str
) -> None:
    cluster = RunningSession(4)
    cluster.isLocal = lambda: is_local  # type: ignore[method-assign]
    assert failure_cause(RuntimeError(message), cluster) == (  # type: ignore[arg-type]
        "Spark's Java ran out of memory; a large row needs about 10 times its size there. Set "
        f"{setting} (1g by default) to more"
    )


class UnreadableError(Exception):
    """An error of Java's after Java has ended: py4j asks Java for its text."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("exit_status", "cause"), [(52, "Spark's Java ran out of memory; "), (137, "Spark's Java has ended: ")]
)
def test_an_error_whose_text_is_gone_with_java_has_a_cause(
    monkeypatch: pytest.MonkeyPatch, exit_status: int, cause: str
) -> None:
    monkeypatch.setattr("integration.spark.failure_causes.java_exit_status", lambda wait_s: exit_status)
    assert failure_cause(UnreadableError(), RunningSession(4)).startswith(cause)  # type: ignore[arg-type]


class ReadableOnceError(Py4JJavaError):
    """An error of a Java that ends while the cause is looked for."""

    def __init__(self) -> None:
        self.texts = iter(["Job 0 cancelled because SparkContext was shut down"])

    def __str__(self) -> str:
        for text in self.texts:
            return text
        raise ConnectionRefusedError("[Errno 111] Connection refused")


def test_an_error_is_read_once_as_java_may_end_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.spark.failure_causes.java_exit_status", lambda wait_s: 52)
    cause = failure_cause(ReadableOnceError(), RunningSession(4))  # type: ignore[arg-type]
    assert cause.startswith("Spark's Java ran out of memory; ")


def test_java_may_end_once_its_error_has_been_read() -> None:
    cluster = RunningSession(4)

    def is_local() -> bool:
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    cluster.isLocal = is_local  # type: ignore[method-assign]
    cause = failure_cause(RuntimeError("java.lang.OutOfMemoryError: heap"), cluster)  # type: ignore[arg-type]
    assert "spark.driver.memory" in cause


def test_tasks_of_more_cores_than_this_machine_gives_cannot_run() -> None:
    cluster = RunningSession(0)
    cluster.isLocal = lambda: True  # type: ignore[method-assign]
    with pytest.raises(
        ShuffleError,
        match=r"Spark has no slot for a task; lower spark\.task\.cpus to at most the cores of the master",
    ):
        require_slots(cluster, 4)  # type: ignore[arg-type]
