"""Faults of a shuffle: wait for the moment of the case, then cause the fault.

Strangers connect to each address at which a worker listens. The Python workers of a case report and wait by
files in the folder of the case: a worker waits for the file `GO`, which a later attempt already finds.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from flowcontrol import NONCE_BYTES, ClientHandshake, Identity
from netstack import ConnectionLimits, TransportConfig, fresh_secret

from .case import LIMIT_S, SILENCE_S, Case, Fault, Moment, input_batches
from .processes import STOPPED, Address, descendants, executor_of, listening, open_files, process

if TYPE_CHECKING:
    import pyarrow as pa

GO = "go"
TASK, INPUT, HELD = "task-", "input-", "held-"
"""What the names of the files begin with that have the process of a task, that of its input, and say that the
input waits; behind it stands the index of the task."""

Batches = Iterator["pa.RecordBatch"]


class Announcing(TransportConfig):
    """Settings of a shuffle that tell, when they arrive in a worker, which one that is."""

    folder: Path
    late: int | None
    """Index of the task that waits there until it is told to go on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (str(self.folder), self.late)


def announcing(case: Case, folder: Path) -> Announcing:
    """Return the settings of the shuffle of a case."""
    config = Announcing(limits=_limits())
    waits = case.fault is Fault.STRANGERS or (case.strikes_process and case.moment is Moment.MEETING)
    object.__setattr__(config, "folder", folder)
    object.__setattr__(config, "late", case.victim if waits else None)
    return config


def _limits() -> ConnectionLimits:
    return ConnectionLimits(keep_alive_s=SILENCE_S, connect_timeout_s=SILENCE_S)


def _arrived(folder: str, late: int | None) -> TransportConfig:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    _tell(Path(folder, f"{TASK}{context.partitionId()}"))
    if context.partitionId() == late:
        wait_to_go(Path(folder))
    return TransportConfig(limits=_limits())


def _tell(file: Path) -> None:
    """Write this process into a file, of which nobody reads a half."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(str(os.getpid()))
        partial.replace(file)
    except FileNotFoundError:
        pass  # the case is over


def wait_to_go(folder: Path) -> None:
    """Wait until the case is told to go on, or over."""
    while folder.exists() and not (folder / GO).exists():
        sleep(_POLL_S)


def making(case: Case, folder: Path) -> Callable[[Batches], Batches]:
    """Return what makes the rows of each partition of the input, and waits where the case says so."""
    path = str(folder)

    def make(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        source, place = context.partitionId(), Path(path)
        _tell(place / f"{INPUT}{source}")
        for _ in batches:
            pass
        given, hold_at = 0, case.hold_after * case.rows[source] if case.held else None
        for batch in input_batches(case, source):
            if hold_at is not None and given >= hold_at:
                _hold(place, source)
                hold_at = None
            yield batch
            given += batch.num_rows
        if hold_at is not None:
            _hold(place, source)

    return make


def _hold(folder: Path, source: int) -> None:
    _tell(folder / f"{HELD}{source}")
    wait_to_go(folder)


def slow(case: Case) -> Callable[[Batches], Batches]:
    """Return a reader that sleeps in one partition, before it has read anything and between batches."""
    sleeps_s, partition = case.pause_s, case.victim

    def read(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        left_s = sleeps_s if context.partitionId() == partition else 0.0
        for batch in batches:
            if left_s > 0:
                sleep(sleeps_s / 4)
                left_s -= sleeps_s / 4
            yield batch

    return read


_PAUSE_S = 0.02
_PATIENCE_S = 1.0
_MOST = 400
"""Connections that are kept open."""


class Strangers:
    """Connect again and again, and say nothing, anything, or a hello without the secret; to be used once.

    Args:
        chance: Draws what each says.
        workers: Gives the processes whose doors they come to.
    """

    def __init__(self, chance: random.Random, workers: Callable[[], list[int]]) -> None:
        self.came = 0
        """Connections so far."""
        self.doors: set[Address] = set()
        """Addresses that somebody came to."""
        self._chance, self._workers = chance, workers
        self._sockets: list[socket.socket] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._come, daemon=True)

    def __enter__(self) -> Strangers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for each in self._sockets:
            each.close()

    def _come(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            for address in listening(self._workers()):
                if len(self._sockets) < _MOST:
                    with suppress(OSError):
                        self._knock(address)

    def _knock(self, address: Address) -> None:
        stranger = socket.create_connection(address, _PATIENCE_S)
        self._sockets.append(stranger)
        self.came += 1
        self.doors.add(address)
        stranger.sendall(self._said())
        if self._chance.random() < 0.3:
            self._sockets.remove(stranger)
            stranger.close()

    def _said(self) -> bytes:
        chance = self._chance
        kind = chance.randrange(5)
        if kind == 0:
            return b""
        if kind == 1:
            return chance.randbytes(chance.randint(1, 4000))
        if kind == 2:
            return b"GET / HTTP/1.1\r\n\r\n"
        identity = Identity(1, 0, chance.randint(2, 4))
        hello = ClientHandshake(fresh_secret(), identity, chance.randbytes(NONCE_BYTES)).begin()
        return hello if kind == 3 else hello + chance.randbytes(chance.randint(1, 200))


_POLL_S = 0.005
_FULL_BYTES = 64 << 10
"""How long a file may become on a disk that is full."""


class Troubles:
    """The faults of one case, from `with` on; they are over at its end, but for what is dead.

    Args:
        case: The case.
        folder: That of the case, where its workers say who they are.
        java: The process of Spark's driver.
    """

    def __init__(self, case: Case, folder: Path, java: int) -> None:
        self.struck_at: float | None = None
        """When the fault came (`time.monotonic`), unless all was over before."""
        self.struck: set[int] = set()
        """Processes that were killed or stopped."""
        self.struck_tasks: set[int] = set()
        """The tasks whose own workers ran there."""
        self.workers: set[int] = set()
        """All workers of the case that have been seen."""
        self.came = 0
        """Strangers."""
        self._case, self._folder, self._java = case, folder, java
        self._over = threading.Event()
        self._stack = ExitStack()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Troubles:
        if self._case.fault is Fault.FULL_DISK:
            executors = [each.pid for each in descendants(self._java).values() if each.is_executor]
            self._stack.enter_context(_full_disk(executors or [self._java]))
            self.struck_at = monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._note_workers()
        self._stack.close()
        if self._error is not None:
            raise self._error

    def recover(self) -> None:
        """Let whoever was stopped too late go on, and end an executor that was stopped, for the next case."""
        for pid in self.struck:
            found = process(pid)
            if found is not None and found.is_executor:
                _signal(pid, signal.SIGKILL)
            elif found is not None and found.state == STOPPED:
                _signal(pid, signal.SIGCONT)

    def _run(self) -> None:
        try:
            if self._case.fault is Fault.STRANGERS:
                self._let_strangers_in()
            elif self._case.strikes_process:
                self._strike_at_the_moment()
        except BaseException as error:
            self._error = error
        finally:
            self._go()

    def _let_strangers_in(self) -> None:
        """Strangers come from the first moment on; a task that is late gives them time."""
        with Strangers(random.Random(self._case.seed), self._pids) as strangers:
            self._wait(lambda: bool(strangers.doors))
            self.struck_at = None if self._over.is_set() else monotonic()
            self._over.wait(self._case.pause_s)
            self._go()
            self._over.wait()
            self.came = strangers.came

    def _strike_at_the_moment(self) -> None:
        case = self._case
        tasks = range(case.tasks)
        wanted = [f"{TASK}{task}" for task in tasks] + [f"{INPUT}{task}" for task in tasks]
        if case.held:
            wanted += [f"{HELD}{task}" for task in tasks]
        self._wait(lambda: all((self._folder / name).exists() for name in wanted))
        if case.moment is Moment.ENDING:
            self._go()
        self._over.wait(case.delay_s)
        if self._over.is_set():
            return
        victim = self._victim()
        if victim is not None:
            self._strike(victim)

    def _victim(self) -> int | None:
        """The process that the fault is for; notes the tasks that go with it."""
        case = self._case
        pid = self._pid(INPUT if case.of_input else TASK, case.victim)
        self.struck_tasks = {case.victim}
        if pid is None or case.fault not in (Fault.KILLED_EXECUTOR, Fault.STOPPED_EXECUTOR):
            return pid
        tree = descendants(self._java)
        executor = executor_of(pid, tree)
        of_tasks = {task: self._pid(TASK, task) for task in range(case.tasks)}
        self.struck_tasks = {
            task
            for task, each in of_tasks.items()
            if each is not None and executor_of(each, tree) == executor
        }
        return executor

    def _strike(self, pid: int) -> None:
        kills = self._case.fault in (Fault.KILLED_WORKER, Fault.KILLED_EXECUTOR)
        self._note_workers()
        self.struck.add(pid)
        self.struck_at = monotonic()
        if not _signal(pid, signal.SIGKILL if kills else signal.SIGSTOP):
            self.struck_at = None
        self._go()
        if self._case.fault is Fault.PAUSED_WORKER:
            self._over.wait(self._case.pause_s)
            _signal(pid, signal.SIGCONT)
        elif self._case.fault is Fault.STOPPED_WORKER:
            self._spare_whom_nobody_waits_for(pid)

    def _spare_whom_nobody_waits_for(self, pid: int) -> None:
        """Let a worker go on that was stopped when all its peers were done.

        None of them notices, and Spark waits for it without end, as it does for any Python that is stopped.
        """
        self._over.wait(LIMIT_S)
        tasks = [self._pid(TASK, task) for task in range(self._case.tasks) if task != self._case.victim]
        if not self._over.is_set() and not any(peer and _exchanges(peer) for peer in tasks):
            self.struck_at = None
            _signal(pid, signal.SIGCONT)

    def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._over.wait(_POLL_S):
            pass

    def _go(self) -> None:
        with suppress(FileNotFoundError):
            (self._folder / GO).touch()

    def _note_workers(self) -> None:
        self.workers.update(self._pids())

    def _pids(self) -> list[int]:
        names = [f"{kind}{task}" for kind in (TASK, INPUT) for task in range(self._case.tasks)]
        return [int(text) for text in map(self._read, names) if text]

    def _pid(self, kind: str, task: int) -> int | None:
        text = self._read(f"{kind}{task}")
        return int(text) if text else None

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return ""


def _exchanges(pid: int) -> bool:
    """Tell whether the network of a shuffle runs in a worker."""
    return any("eventpoll" in file for file in open_files(pid))


def _signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False if nobody is there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _full_disk(javas: list[int]) -> Iterator[None]:
    """Let processes write no file beyond a few KiB."""
    before = {java: resource.prlimit(java, resource.RLIMIT_FSIZE) for java in javas}
    for java, (_, hard) in before.items():
        resource.prlimit(java, resource.RLIMIT_FSIZE, (_FULL_BYTES, hard))
    try:
        yield
    finally:
        for java, limits in before.items():
            with suppress(ProcessLookupError):
                resource.prlimit(java, resource.RLIMIT_FSIZE, limits)
