"""A Flink of separate processes on loopback: a job manager, and task managers with room for named slots.

Flink chooses the slots of a job itself. So that subtasks run where a scenario says, task managers declare
slots of each group as an external resource, of which a slot of that group takes one.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import TestbedError
from .processes import Processes, left_behind
from .rest import Rest
from .software import Software, cache

PORT = 18081
FOLDER = "cluster"
JOB_MANAGER = "jm"

_PATIENCE_S = 90.0
_POLL_S = 0.3
_OTHER_DIRECT_BYTES = 192 << 20
_HEAP_MB = 896

_OPENED = {
    "exports": ("java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5"),
    "opens": tuple(
        f"java.base/{package}"
        for package in (
            "java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text", "java.time",
            "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks",
            "sun.nio.ch",
        )
    ),
}  # fmt: skip
"""What Flink needs to see of Java."""

_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = FILE
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} %m%n
"""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a cluster consists of."""

    task_managers: Sequence[Mapping[str, int]]
    """For each one the slots of each group that it has room for; empty: `slots` for anybody."""
    slots: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of Flink; those by which the testbed works come on top."""
    network_bytes: int = 256 << 20
    """Network memory of each task manager."""
    policy: str = "flink"
    steps: bool = False
    """Whether task managers write down each step of debloating, which `debloating_steps` reads."""

    @property
    def changed(self) -> bool:
        """Whether the agent is needed."""
        return self.policy != "flink" or self.steps


class Cluster:
    """One that runs."""

    def __init__(self, folder: Path, processes: Processes, rest: Rest, software: Software) -> None:
        self.folder = folder
        self.processes = processes
        self.rest = rest
        self._software = software

    def submit(self, entry: str, arguments: list[str]) -> str:
        """Run a job of ours; returns its id once all its subtasks run.

        Raises:
            TestbedError: it does not come to that.
        """
        job = self.rest.run_jar(self._software.jobs, entry, arguments)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            self.check(job)
            if all(v["status"] == "RUNNING" for v in self.rest.get(f"/jobs/{job}")["vertices"]):
                return job
            time.sleep(_POLL_S)
        raise TestbedError(f"the job does not run after {_PATIENCE_S:.0f} s; logs are in {self.folder}")

    def check(self, job: str) -> None:
        """Say what has gone wrong with a job or the cluster, if something has.

        Raises:
            TestbedError: it has.
        """
        self.processes.check()
        state = self.rest.get(f"/jobs/{job}")["state"]
        if state not in ("INITIALIZING", "CREATED", "RUNNING"):
            said = self.rest.get(f"/jobs/{job}/exceptions").get("exceptionHistory", {}).get("entries", [])
            why = said[0]["stacktrace"] if said else "no exception is told"
            causes = [line for line in why.splitlines() if line.startswith("Caused by:")] or [why]
            raise TestbedError(f"the job is {state}: {causes[-1].splitlines()[0][:300]}")

    def cancel(self, job: str) -> None:
        """End a job, and wait until its slots are free again."""
        self.rest.cancel(job)
        deadline = time.monotonic() + _PATIENCE_S
        while self.rest.get(f"/jobs/{job}")["state"] != "CANCELED" and time.monotonic() < deadline:
            time.sleep(_POLL_S)


@contextmanager
def cluster(software: Software, layout: Layout, port: int = PORT) -> Iterator[Cluster]:
    """Run a cluster while the block does; its logs stay until the next one.

    Raises:
        TestbedError: another one runs, the port is taken, or it does not come up.
    """
    folder = cache() / FOLDER
    lock = FileLock(cache() / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise TestbedError(f"another run is going on with {cache()}; wait for it, or end it") from None
    try:
        _check_free(folder, port)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "conf").mkdir(parents=True)
        processes, rest = Processes(folder), Rest(port)
        try:
            _start(software, layout, folder, processes, port)
            _wait(rest, processes, len(layout.task_managers), folder)
            yield Cluster(folder, processes, rest, software)
        finally:
            processes.end()
            rest.close()
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    finally:
        lock.release()


def _check_free(folder: Path, port: int) -> None:
    if running := left_behind(folder):
        raise TestbedError(
            f"a cluster of an earlier run still runs (processes {', '.join(map(str, running))}); "
            "python -m tests.flink stop ends it"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise TestbedError(f"port {port} of 127.0.0.1 is taken; name another one by --port") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(software: Software, layout: Layout, folder: Path, processes: Processes, port: int) -> None:
    conf = folder / "conf"
    options = options_of(layout, folder, port, _free_port())
    (conf / "config.yaml").write_text(
        "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()), "utf-8"
    )
    (conf / "log4j.properties").write_text(_LOGGING, "utf-8")
    opened = [f"--add-{kind}={what}=ALL-UNNAMED" for kind, names in _OPENED.items() for what in names]

    def start(name: str, memory: Sequence[str], entry: str, arguments: Sequence[str]) -> None:
        logging = [
            f"-Dlog.file={folder}/{name}.log",
            f"-Dlog4j.configurationFile=file:{conf}/log4j.properties",
        ]
        java = ["java", *memory, "-XX:+UseG1GC", *opened, *logging, "-cp", software.class_path, entry]
        processes.start(name, [*java, "--configDir", str(conf), *arguments])

    entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    start(JOB_MANAGER, ["-Xmx768m"], entry, ["--executionMode", "cluster"])
    direct = layout.network_bytes + _OTHER_DIRECT_BYTES
    memory = [f"-Xmx{_HEAP_MB}m", f"-XX:MaxDirectMemorySize={direct}"]
    for number, room in enumerate(layout.task_managers):
        name = f"tm{number}"
        (folder / name).mkdir()
        steps = steps_file(folder, name) if layout.steps else None
        agent = software.agent_options(layout.policy, steps) if layout.changed else []
        placing = {
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.resource-id": name,
            "io.tmp.dirs": str(folder / name),
        }
        placing |= {f"external-resource.{group}.amount": str(count) for group, count in room.items()}
        if room:
            placing["external-resources"] = ";".join(room)
        given = [part for key, value in placing.items() for part in ("-D", f"{key}={value}")]
        start(name, [*memory, *agent], "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", given)


def steps_file(folder: Path, task_manager: str) -> Path:
    """Where a task manager writes its steps of debloating."""
    return folder / f"{task_manager}.steps"


def options_of(layout: Layout, folder: Path, port: int, rpc_port: int) -> dict[str, Any]:
    """The options of a cluster: those of the layout, and on top those by which the testbed works."""
    return {
        "taskmanager.numberOfTaskSlots": layout.slots,
        "execution.checkpointing.storage": "filesystem",
        **layout.options,
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": "127.0.0.1",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "rest.cache.checkpoint-statistics.timeout": "100ms",
        "web.checkpoints.history": 500,
        "web.tmpdir": str(folder / "web"),
        "metrics.fetcher.update-interval": 900,
        "taskmanager.cpu.cores": 16.0,
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "taskmanager.memory.jvm-overhead.min": "192m",
        "taskmanager.memory.jvm-overhead.max": "192m",
        "taskmanager.memory.task.heap.size": "768m",
        "taskmanager.memory.task.off-heap.size": "64m",
        "taskmanager.memory.managed.size": "256m",
        "taskmanager.memory.network.min": f"{layout.network_bytes} b",
        "taskmanager.memory.network.max": f"{layout.network_bytes} b",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "restart-strategy.type": "none",
    }


def _wait(rest: Rest, processes: Processes, task_managers: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        processes.check()
        try:
            if rest.get("/overview")["taskmanagers"] == task_managers:
                return
        except (TestbedError, KeyError):
            pass
        time.sleep(_POLL_S)
    raise TestbedError(f"the cluster is not up after {_PATIENCE_S:.0f} s; logs are in {folder}")
