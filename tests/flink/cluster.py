"""A Flink of separate processes on loopback: a job manager, and task managers with room for named slots.

Flink chooses the slots of a job itself. So that subtasks run where a scenario says, task managers declare
slots of each group as an external resource, of which a slot of that group takes one. All processes stand in
a file while they run, so that none is left behind.

Flink's jars come from a PyPI package, and our Java is compiled against them, in a folder of the user:
``netstack-flink`` in the user's cache, or what the environment variable `CACHE` names. A wheel of the
package in that folder is used without network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from filelock import FileLock, Timeout


class TestbedError(Exception):
    """There is no measurement; the message says why, and what would help."""

    __test__ = False


_END_S = 10.0
_NOTE = "processes"


class Processes:
    """The processes of one cluster, whose folder stands in their command lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ids(self) -> Mapping[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, command: Sequence[str], cores: Iterable[int] = ()) -> None:
        """Start a process, on certain cores only if there are any."""
        with (self._folder / f"{name}.out").open("wb") as out, _on(cores):
            # A group of its own: Ctrl-C is for us, and we end these in order.
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self._folder, process_group=0,
            )  # fmt: skip
        (self._folder / _NOTE).write_text("".join(f"{pid}\n" for pid in self.ids.values()), "utf-8")

    def check(self) -> None:
        """Say which one has ended, if one has.

        Raises:
            TestbedError: it has.
        """
        for name, process in self._running.items():
            if (status := process.poll()) is not None:
                how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                log = self._folder / f"{name}.log"
                raise TestbedError(f"the {_spelt(name)} has ended ({how}); its log is {log}")

    def end(self) -> None:
        """End all that run, task managers first, and wait until they have."""
        for process in reversed(self._running.values()):
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        (self._folder / _NOTE).unlink(missing_ok=True)


@contextmanager
def _on(cores: Iterable[int]) -> Iterator[None]:
    """Let this thread, and the processes that it starts, run on some cores while the block runs."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores) or allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _spelt(name: str) -> str:
    return "job manager" if name == "jm" else f"task manager {name}"


def left_behind(folder: Path) -> list[int]:
    """The processes of an earlier cluster in that folder that still run."""
    try:
        noted = [int(line) for line in (folder / _NOTE).read_text("utf-8").split()]
    except (OSError, ValueError):
        return []
    return [process for process in noted if str(folder) in _command_line(process)]


def end_left_behind(folder: Path) -> int:
    """End them; returns how many there were."""
    count = len(left_behind(folder))
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for process in left_behind(folder):
            os.kill(process, sent)
        deadline = time.monotonic() + _END_S
        while left_behind(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
    return count


def _command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


_TIMEOUT_S = 30.0
_SHOWN = 300


class Rest:
    """Asks the job manager on a port of loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """The answer to a GET.

        Raises:
            TestbedError: there is none.
        """
        return self._ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def cancel(self, job: str) -> None:
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")

    def run_jar(self, jar: Path, entry: str, arguments: list[str], checkpoint: str | None = None) -> str:
        """Run a job of a jar, from the checkpoint at a path if there is one; returns its id."""
        with jar.open("rb") as file:
            kept = self._ask("POST", "/jars/upload", files={"jarfile": (jar.name, file)})
        of_jar = kept["filename"].rpartition("/")[2]
        body = {"entryClass": entry, "programArgsList": arguments, "savepointPath": checkpoint}
        job = self.post(f"/jars/{of_jar}/run", body)
        return str(job["jobid"])

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        try:
            response = self._client.request(method, path, **content)
        except httpx.HTTPError as error:
            raise TestbedError(
                f"the job manager does not answer {path}: {error or type(error).__name__}"
            ) from None
        if response.is_success:
            return response.json() if response.content else {}
        raise TestbedError(f"the job manager refuses {method} {path}: {_why(response)}")


def _why(response: httpx.Response) -> str:
    """The cause within a stack trace, or the beginning of what was answered."""
    text = response.text.replace("\\n", "\n").replace("\\t", "")
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    return (causes[-1].removeprefix("Caused by:").strip() if causes else text)[:_SHOWN]


RELEASES: Mapping[str, str] = {"flink-2.3": "2.3.0", "flink-2.2": "2.2.1"}
"""The releases of Flink that the testbed runs, by the preset with their defaults; the newest one first."""
NEWEST = next(iter(RELEASES.values()))
PACKAGE = "apache-flink-libraries"
CACHE = "NETSTACK_FLINK_CACHE"

JAVA = Path(__file__).parent / "java"
_LEAST_JAVA = 17
_TOOLS = ("java", "javac", "jar")
_JARS = ("flink-dist", "flink-table", "flink-cep", "log4j")
_REPORTER = "flink-metrics-prometheus"
_FOLDERS_OF_JARS = ("pyflink/lib/", "pyflink/plugins/metrics-prometheus/")
_ASM = "--add-exports=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
_AGENT_CLASS = "testbed.PolicyAgent"


@dataclass(frozen=True)
class Software:
    """Where everything lies that a Flink needs to run."""

    release: str
    """Release of Flink, such as "2.3.0"."""
    jars: tuple[Path, ...]
    """Flink's own, its logging included."""
    jobs: Path
    """Our jobs, and the factory that chooses numbers of buffers."""
    agent: Path
    """What gives Flink another debloating policy, and writes down its steps."""

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, (self.jobs, *self.jars)))

    def agent_options(self, policy: str, steps: Path | None = None) -> list[str]:
        """Options of a Java that is to run under a policy, and to write its steps of debloating to a file."""
        recording = [] if steps is None else [f"-Dtestbed.steps={steps}"]
        return [f"-javaagent:{self.agent}={policy}", _ASM, *recording]


def cache() -> Path:
    """The folder of what is downloaded, compiled and left behind."""
    if named := os.environ.get(CACHE):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netstack-flink"


def check_java() -> None:
    """Refuse to go on without a Java that compiles.

    Raises:
        TestbedError: a tool is missing, or too old.
    """
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise TestbedError(
            f"there is no {' and no '.join(missing)}; install a JDK of version {_LEAST_JAVA} or newer"
        )
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+", said.stdout + said.stderr)
    if version is None or int(version.group()) < _LEAST_JAVA:
        shown = (said.stdout + said.stderr).strip() or "a javac that does not tell its version"
        raise TestbedError(f"there is {shown}; install a JDK of version {_LEAST_JAVA} or newer")


def prepare(release: str = NEWEST) -> Software:
    """Fetch and unpack a release of Flink, and compile our Java against it, as far as that is not done yet.

    Raises:
        TestbedError: there is no Java compiler, or something cannot be fetched, written or compiled.
    """
    check_java()
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        jars = _flink(folder, release)
        jobs = _compiled("jobs", folder, release, jars, ())
        agent = _compiled("agent", folder, release, jars, (_ASM,))
    except OSError as error:
        raise TestbedError(f"{folder}: {error.strerror}; {CACHE} names another folder") from None
    return Software(release, jars, jobs, agent)


def _flink(folder: Path, release: str) -> tuple[Path, ...]:
    unpacked = folder / f"flink-{release}"
    if not unpacked.exists():
        fresh = folder / f"flink-{release}.unpacking"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _unpack(_wheel(folder, release), fresh)
        fresh.rename(unpacked)
    elif not any(unpacked.glob(f"{_REPORTER}*.jar")):  # unpacked before the reporter was needed
        _unpack(_wheel(folder, release), unpacked, (_REPORTER,))
    return tuple(sorted(unpacked.glob("*.jar")))


def _wheel(folder: Path, release: str) -> Path:
    pattern = f"{PACKAGE.replace('-', '_')}-{release}-*.whl"
    if wheels := sorted(folder.glob(pattern)):
        return wheels[0]
    print(f"fetching {PACKAGE} {release}, 300 MB, to {folder}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{PACKAGE}=={release}"]
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode or not (wheels := sorted(folder.glob(pattern))):
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = (errors or [done.stderr.strip()])[0][:200]
        raise TestbedError(f"{PACKAGE} {release} cannot be fetched: {why}; put its wheel into {folder}")
    return wheels[0]


def _unpack(wheel: Path, folder: Path, jars: tuple[str, ...] = (*_JARS, _REPORTER)) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = name.rpartition("/")[2]
                if name.startswith(_FOLDERS_OF_JARS) and base.startswith(jars):
                    with archive.open(name) as source, (folder / base).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except zipfile.BadZipFile:
        raise TestbedError(f"{wheel}: is no whole wheel; delete it, so that it is fetched again") from None


def _compiled(name: str, folder: Path, release: str, jars: Iterable[Path], options: Iterable[str]) -> Path:
    """The jar of one folder of our Java, made anew when a source has changed."""
    sources = sorted((JAVA / name).rglob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    jar = folder / f"{name}-{release}-{digest}.jar"
    if jar.exists():
        return jar
    classes = folder / f"{name}.compiling"
    shutil.rmtree(classes, ignore_errors=True)
    path = os.pathsep.join(map(str, jars))
    _run("javac", "-nowarn", "-proc:none", *options, "-cp", path, "-d", str(classes), *map(str, sources))
    manifest = folder / f"{name}.manifest"
    manifest.write_text(f"Premain-Class: {_AGENT_CLASS}\n" if name == "agent" else "", "utf-8")
    _run("jar", "cfm", str(jar), str(manifest), "-C", str(classes), ".")
    shutil.rmtree(classes)
    manifest.unlink()
    return jar


def _run(tool: str, *arguments: str) -> None:
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines() or ["no word why"]
        raise TestbedError(f"{tool} has failed: {lines[0]}")


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
"""Packages of the JDK that are opened for Flink."""

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
    """Task managers, slots and options of a cluster."""

    task_managers: Sequence[Mapping[str, int]]
    """Number of slots of each group, by task manager; empty: `slots` for any group."""
    slots: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of Flink; the testbed adds its own."""
    network_bytes: int = 256 << 20
    """Network memory of each task manager."""
    cores: Sequence[Sequence[int]] = ()
    """Cores of each task manager, counted from 0 among those of this process.

    A task manager without cores has no limit. If the sequence is empty, no task manager has a limit.
    """
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

    def submit(self, entry: str, arguments: list[str], checkpoint: str | None = None) -> str:
        """Run a job of ours, from a checkpoint if there is one; returns its id once all its subtasks run.

        Raises:
            TestbedError: it does not come to that.
        """
        job = self.rest.run_jar(self._software.jobs, entry, arguments, checkpoint)
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
        _check_cores(layout)
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


def _check_cores(layout: Layout) -> None:
    needed = 1 + max((core for cores in layout.cores for core in cores), default=-1)
    if needed > (there := len(os.sched_getaffinity(0))):
        raise TestbedError(f"the scenario's machines need {needed} cores, but this machine has {there}")


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

    def start(
        name: str, memory: Sequence[str], entry: str, arguments: Sequence[str], cores: Sequence[int] = ()
    ) -> None:
        logging = [
            f"-Dlog.file={folder}/{name}.log",
            f"-Dlog4j.configurationFile=file:{conf}/log4j.properties",
        ]
        java = ["java", *memory, "-XX:+UseG1GC", *opened, *logging, "-cp", software.class_path, entry]
        processes.start(name, [*java, "--configDir", str(conf), *arguments], cores)

    entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    start(JOB_MANAGER, ["-Xmx768m"], entry, ["--executionMode", "cluster"])
    ours = sorted(os.sched_getaffinity(0))
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
        cores = [ours[core] for core in layout.cores[number]] if layout.cores else []
        entry = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        start(name, [*memory, *agent], entry, given, cores)


def steps_file(folder: Path, task_manager: str) -> Path:
    """File into which a task manager writes its steps of debloating."""
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
