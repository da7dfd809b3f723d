"""What the Spark application offers to a barrier stage: slots for all of its tasks at once, or none.

Spark refuses a barrier stage that does not fit when a job reaches it, and only after it has looked again
every fifteen seconds for ten minutes. So all of this is asked before.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .errors import ShuffleError

if TYPE_CHECKING:
    from pyspark import SparkContext

_DYNAMIC = "spark.dynamicAllocation.enabled"
_REGISTRATION = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_PERIOD_S = 0.1


def is_local(context: SparkContext) -> bool:
    """Tell whether all tasks run in Spark's driver, on this machine."""
    return bool(_scala(context).isLocal())


def require_barriers(context: SparkContext) -> None:
    """Check that Spark runs barrier stages at all.

    Raises:
        ShuffleError: Dynamic allocation is on, with which it does not.
    """
    spark: Any = context._jvm
    if spark.org.apache.spark.util.Utils.isDynamicAllocationEnabled(_scala(context).conf()):
        raise ShuffleError(
            f"a shuffle is a barrier stage, and Spark runs none while {_DYNAMIC} is true; start the"
            f" application with {_DYNAMIC}=false and a fixed number of executors"
        )


def count_slots(context: SparkContext, wanted: int = 1) -> int:
    """Return how many tasks Spark can run at once: the cores of all executors by ``spark.task.cpus``.

    Of an application that has just begun the executors may be on their way: if there are fewer slots than
    `wanted`, they are waited for until it is ``spark.scheduler.maxRegisteredResourcesWaitingTime`` old.
    """
    scala = _scala(context)
    profile = scala.resourceProfileManager().defaultResourceProfile()
    wait_ms = 0 if scala.isLocal() else int(scala.conf().getTimeAsMs(_REGISTRATION, "30s"))
    deadline_ms = scala.startTime() + wait_ms
    while True:
        slots = int(scala.maxNumConcurrentTasks(profile))
        if slots >= wanted or time.time() * 1000 >= deadline_ms:
            return slots
        time.sleep(_PERIOD_S)


def require_slots(context: SparkContext, wanted: int) -> None:
    """Check that so many tasks can run at once.

    Raises:
        ShuffleError: They cannot; names the setting of Spark's that decides.
    """
    check_slots(wanted, count_slots(context, wanted), local=is_local(context))


def check_slots(wanted: int, slots: int, *, local: bool) -> None:
    """Check that `slots` are enough, those of this machine or of a cluster.

    Raises:
        ShuffleError: They are not.
    """
    if slots >= wanted:
        return
    remedy = f"start Spark with the master local[{wanted}]"
    if not local:
        remedy = "give it more spark.executor.cores or spark.executor.instances (spark.cores.max limits them)"
    tasks = "1 task" if slots == 1 else f"{slots} tasks"
    raise ShuffleError(
        f"the {wanted} tasks of a shuffle into {wanted} partitions have to run at the same time, but Spark"
        f" has slots for {tasks}; {remedy}, or take a num_partitions of at most {slots}"
    )


def _scala(context: SparkContext) -> Any:
    """The SparkContext of the JVM."""
    return context._jsc.sc()
