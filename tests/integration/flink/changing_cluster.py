"""A Flink cluster whose job restarts, moves, is rescaled or replaced while it is asked, by its own clock.

Answers have the shape of a recorded cluster's, and what they say is calculated for the moment: counters go up
evenly from each start of the job, at the rates that were recorded. As in Flink, the cluster keeps for
`REFRESH_S` what it says of a job, here for a browser that asks all the time, but for its checkpoints, for
which one may set less. Metrics of all tasks are collected together when somebody asks, at most once an update
interval, for those who ask later; the ones of a task manager that does not answer stay.
"""

from __future__ import annotations

import copy
import json
import math
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from math import inf
from random import Random
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from integration.flink import Answers
from integration.flink.http.answers import Refused
from tests.integration.flink.flink_cluster import Quiet, recording, serving_on_loopback

BASE = "flink-2.2.1_2x2x2_1MBs_depth2_off"
REFRESH_S = 3.0
_WALL_MS = 1_795_174_000_000
_COLLECTED_S = 0.05
"""From then on there are the metrics that a question has caused to be collected."""

_FIRST_CHECKPOINT_S, _CHECKPOINTS_S = 0.1, 5.0
_HISTORY = 10
_COUNTED = "num"
_TIMES = {
    "accumulateBusyTimeMs": "busy",
    "accumulateIdleTimeMs": "idle",
    "accumulateBackPressuredTimeMs": "held",
}


@dataclass
class ChangingCluster(Answers):
    """Answers for the moment; `starts` are in order of time, and `random` says how long an answer takes."""

    starts: tuple[Start, ...]
    update_s: float
    random: Random
    name: str = "http://cluster:8081"
    now_s: float = 0.0
    asked: int = 0
    _document: dict[str, Any] = field(default_factory=lambda: recording(BASE))
    _stored: dict[tuple[str, str, int], tuple[Start, float]] = field(default_factory=dict)
    _collected_s: float = -inf

    def __post_init__(self) -> None:
        self._answers: dict[str, Any] = self._document["answers"]
        self._base = f"/jobs/{self._document['job']}"
        self._vertices: list[dict[str, Any]] = self._answers[self._base]["vertices"]
        self.source: str = self._vertices[0]["id"]

    # As what is asked.

    def answer(self, path: str) -> Any | Refused:
        """What the cluster answers at this moment, which takes some milliseconds."""
        self.asked += 1
        self.now_s += self.random.uniform(0.001, 0.03)
        parts = urlsplit(path)
        told = self._answer(unquote(parts.path), parse_qs(parts.query))
        return Refused(404, f"Flink answers 404: {path}") if told is None else json.loads(json.dumps(told))

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def clock(self) -> float:
        """Return the time."""
        return self.now_s

    def _answer(self, path: str, query: Mapping[str, list[str]]) -> Any | None:
        parts = path.strip("/").split("/")
        wanted = [name for names in query.get("get", ()) for name in names.split(",")]
        match parts:
            case ["config"]:
                return self._answers["/config"] | {"flink-version": self._start_at(self.now_s).version}
            case ["jobmanager", "config"]:
                told = {"metrics.fetcher.update-interval": f"{round(self.update_s * 1e3)}"}
                return [
                    entry | {"value": told.get(entry["key"], entry["value"])}
                    for entry in self._answers["/jobmanager/config"]
                ]
            case ["jobs", "overview"]:
                return {"jobs": self._overview()}
            case ["jobs", job, "vertices", vertex, "subtasks", number, "metrics"]:
                return self._metrics(job, vertex, int(number), wanted)
            case ["jobs", job, "vertices", vertex, "metrics"]:
                names: dict[str, list[str]] = {}
                for name in wanted:
                    names.setdefault(name.partition(".")[0], []).append(name.partition(".")[2])
                return [
                    entry | {"id": f"{number}.{entry['id']}"}
                    for number in names
                    for entry in self._metrics(job, vertex, int(number), names[number])
                ]
            case ["taskmanagers"]:
                known = dict.fromkeys(manager for start in self.starts for manager in start.managers)
                return {"taskmanagers": [each for each in map(self._manager, known) if each is not None]}
            case ["jobs", job, *rest]:
                return self._of_job(job, rest)
            case ["taskmanagers", manager]:
                return self._manager(manager)
            case ["taskmanagers", manager, "metrics"]:
                return [] if self._manager(manager) is None else self._use(manager)
        return None

    # What is so at a moment.

    def _start_at(self, at_s: float) -> Start:
        begun = [start for start in self.starts if start.running_s <= at_s]
        return begun[-1] if begun else self.starts[0]

    def _state(self, job: str, at_s: float) -> tuple[Start, str] | None:
        """The last start of a job, and its state; None: the cluster does not know it."""
        starts = [start for start in self.starts if start.job == job and start.running_s <= at_s]
        if not starts:
            return None
        start = starts[-1]
        if at_s < start.failed_s:
            return start, "RUNNING"
        later = [other for other in self.starts if other.running_s > start.running_s]
        if any(other.job == job for other in later):
            return start, "FAILING" if at_s < start.failed_s + 0.3 else "RESTARTING"
        return start, "CANCELED"

    def _overview(self) -> list[dict[str, Any]]:
        (entry,) = self._answers["/jobs/overview"]["jobs"]
        known = (
            (job, self._state(job, self.now_s)) for job in dict.fromkeys(start.job for start in self.starts)
        )
        return [entry | {"jid": job, "state": state[1]} for job, state in known if state is not None]

    def _manager(self, manager: str) -> Any | None:
        """What the cluster says of a task manager; None if it has not come, or is known to be lost."""
        start = self._start_at(self.now_s)
        there = manager in start.managers and not (manager == start.lost and self.now_s >= start.failed_s)
        if not there:
            return None
        number = int(manager.removeprefix("tm")) % 3
        slots = [slot | {"jobId": start.job} for slot in self._answers["/taskmanagers/tm0"]["allocatedSlots"]]
        path = f"pekko.tcp://flink@10.0.0.{number}:6122/user/rpc/taskmanager_0"
        return self._answers["/taskmanagers/tm0"] | {"id": manager, "allocatedSlots": slots, "path": path}

    def _use(self, manager: str) -> list[dict[str, str]]:
        self._collect()
        start = self._start_at(self._collected_s)
        used_s = 0.3 * start.factor * max(0.0, min(self._collected_s, start.lost_s) - start.tasks_s)
        return [
            {"id": "Status.JVM.CPU.Load", "value": "0.1"},
            {"id": "Status.JVM.CPU.Time", "value": str(round(1e9 * used_s))},
        ]

    # Metrics, which are collected now and then.

    def _collect(self) -> None:
        if self.now_s < self._collected_s + self.update_s:
            return
        asked_s, self._collected_s = self._collected_s, self.now_s
        start = self._start_at(self.now_s)
        first = asked_s == -inf
        if not start.tasks_s <= self.now_s < start.failed_s or first:
            if first:
                self._collected_s = self.now_s - self.update_s + _COLLECTED_S
            return
        for place, vertex in enumerate(self._vertices):
            for subtask in range(self._parallelism(start, vertex["id"])):
                if not (start.manager(place, subtask) == start.lost and self.now_s >= start.lost_s):
                    self._stored[start.job, vertex["id"], subtask] = (start, self.now_s)

    def _metrics(self, job: str, vertex: str, subtask: int, wanted: list[str]) -> list[dict[str, str]]:
        """The names of a task's metrics, or the values of some; none where they were not collected."""
        stored = self._stored.get((job, vertex, subtask))
        self._collect()  # for those who ask later
        if stored is None:
            return []
        start, at_s = stored
        place = [entry["id"] for entry in self._vertices].index(vertex)
        rounds = self._rounds(vertex, subtask)
        at_lost = start.manager(place, subtask) == start.lost
        ran_s = max(0.0, min(at_s, start.lost_s) - start.tasks_s)
        held_s = 0.0 if at_lost else max(0.0, at_s - start.lost_s)
        values = {}
        for entry in rounds[0]:
            values[entry["id"]] = self._value(entry, rounds, start.factor, ran_s, held_s)
        return [
            {"id": name, "value": value} for name, value in values.items() if not wanted or name in wanted
        ]

    def _rounds(self, vertex: str, subtask: int) -> list[list[dict[str, str]]]:
        path = f"{self._base}/vertices/{vertex}/subtasks/{subtask % 2}/metrics?get=*"
        rounds: list[list[dict[str, str]]] = self._answers[path]
        return rounds

    def _value(
        self,
        entry: dict[str, str],
        rounds: list[list[dict[str, str]]],
        factor: float,
        ran_s: float,
        held_s: float,
    ) -> str:
        """A metric after so many seconds of work, and others of waiting for buffers."""
        name = entry["id"]
        grown = {each: self._growth(rounds, each) for each in _TIMES}
        seconds = sum(grown.values()) / 1e3
        if name in _TIMES:
            more_ms = 1e3 * held_s if _TIMES[name] == "held" else 0.0
            return str(round(grown[name] / seconds * ran_s + more_ms))
        if name.startswith(_COUNTED) and not name.endswith("PerSecond"):
            return str(round(self._growth(rounds, name) / seconds * factor * ran_s))
        if name.startswith(_COUNTED):
            per_s = self._growth(rounds, name.removesuffix("PerSecond")) / seconds
            return str(per_s * factor)
        return entry["value"]

    @staticmethod
    def _growth(rounds: list[list[dict[str, str]]], name: str) -> float:
        first, last = (
            next((float(entry["value"]) for entry in entries if entry["id"] == name), 0.0)
            for entries in (rounds[1], rounds[-1])
        )
        return last - first

    # What is said of a job, which is kept for a while.

    def _of_job(self, job: str, rest: list[str]) -> Any | None:
        at_s = math.floor(self.now_s / REFRESH_S) * REFRESH_S
        known = self._state(job, at_s) or self._state(job, self.now_s)
        if known is None:
            return None
        state = known[0]
        at_s = max(at_s, state.running_s)
        match rest:
            case []:
                return self._details(state, at_s)
            case ["plan"]:
                return self._answers[f"{self._base}/plan"]
            case ["checkpoints", "config"]:
                return self._answers[f"{self._base}/checkpoints/config"] | {"interval": 1e3 * _CHECKPOINTS_S}
            case ["vertices", vertex]:
                return self._vertex(state, vertex, at_s)
            case ["vertices", vertex, "backpressure"]:
                return self._answers[f"{self._base}/vertices/{vertex}/backpressure"]
            case ["checkpoints"]:
                return {"history": self._checkpoints(job, self.now_s)}
            case ["checkpoints", "details", number, "subtasks", vertex]:
                return self._checkpoint(job, int(number), vertex, self.now_s)
        return None

    def _parallelism(self, start: Start, vertex: str) -> int:
        return start.parallelism if vertex == self._vertices[1]["id"] else 2

    def _task_state(self, start: Start, at_s: float) -> str:
        if at_s >= start.failed_s:
            return "CANCELED"
        return "RUNNING" if at_s >= start.tasks_s else "INITIALIZING"

    def _details(self, start: Start, at_s: float) -> Any:
        details = copy.deepcopy(self._answers[self._base])
        known = self._state(start.job, at_s)
        assert known is not None
        details |= {"jid": start.job, "state": known[1], "now": _wall_ms(at_s)}
        details["timestamps"] |= {"RUNNING": _wall_ms(start.running_s)}
        for vertex in details["vertices"]:
            vertex |= {
                "parallelism": self._parallelism(start, vertex["id"]),
                "status": self._task_state(start, at_s),
            }
        return details

    def _vertex(self, start: Start, vertex: str, at_s: float) -> Any:
        answer = copy.deepcopy(self._answers[f"{self._base}/vertices/{vertex}"])
        place = [entry["id"] for entry in self._vertices].index(vertex)
        answer["subtasks"] = [
            answer["subtasks"][number % 2]
            | {
                "subtask": number,
                "attempt": start.attempt,
                "status": self._task_state(start, at_s),
                "start-time": _wall_ms(start.running_s),
                "duration": round(1e3 * (min(at_s, start.failed_s) - start.running_s)),
                "taskmanager-id": start.manager(place, number),
                "metrics": {},
            }
            for number in range(self._parallelism(start, vertex))
        ]
        return answer

    def _checkpoints(self, job: str, at_s: float) -> list[dict[str, Any]]:
        """The last ones, newest first; ids go on over the restarts of a job."""
        entry = self._answers[f"{self._base}/checkpoints"]["history"][0]
        took_s = entry["end_to_end_duration"] / 1e3
        taken = []
        for start in self.starts:
            end_s = min(at_s, start.failed_s, start.lost_s)
            at = start.tasks_s + _FIRST_CHECKPOINT_S
            while start.job == job and at + took_s <= end_s:
                taken.append(_wall_ms(at))
                at += _CHECKPOINTS_S
        entries = [
            entry | {"id": number, "trigger_timestamp": trigger_ms}
            for number, trigger_ms in enumerate(taken, start=1)
        ]
        return entries[::-1][:_HISTORY]

    def _checkpoint(self, job: str, number: int, vertex: str, at_s: float) -> Any | None:
        entry = next((each for each in self._checkpoints(job, at_s) if each["id"] == number), None)
        if entry is None:
            return None
        start = self._start_at((entry["trigger_timestamp"] - _WALL_MS) / 1e3)
        recorded = self._answers[f"{self._base}/checkpoints"]["history"][0]["id"]
        answer = copy.deepcopy(
            self._answers[f"{self._base}/checkpoints/details/{recorded}/subtasks/{vertex}"]
        )
        answer["subtasks"] = [
            answer["subtasks"][index % 2]
            | {
                "index": index,
                "start_delay": round(answer["subtasks"][index % 2]["start_delay"] / start.factor),
            }
            for index in range(self._parallelism(start, vertex))
        ]
        return answer


def _wall_ms(at_s: float) -> int:
    return _WALL_MS + round(1e3 * at_s)


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of a job: from when to when it runs, where, and how fast; times in seconds of the clock."""

    job: str
    attempt: int
    version: str
    running_s: float
    """Time in seconds from which the job is RUNNING."""
    tasks_s: float
    """From then on its tasks are."""
    failed_s: float = inf
    """From then on the cluster knows that it runs no more."""
    lost_s: float = inf
    """From then on the task manager `lost` says nothing, and all others are back-pressured."""
    lost: str = ""
    parallelism: int
    """Number of subtasks of the second vertex."""
    managers: tuple[str, ...]
    turn: int
    """The task manager of the first subtask."""
    factor: float
    """By which its rates differ from the recorded ones."""

    def manager(self, place: int, subtask: int) -> str:
        """Where a subtask runs."""
        return self.managers[(place + subtask + self.turn) % len(self.managers)]

    def unending(self) -> Start:
        """The same start of a job which nothing happens to."""
        return replace(self, failed_s=inf, lost_s=inf, lost="")


WHEN_S = ((-45.0, 45.0), (0.0, 0.6), (19.0, 25.0), (29.0, 36.0))
"""Ranges for the time of the first event, from the start of reading: any time, at its start, at its end."""


def draw_starts(random: Random) -> tuple[Start, ...]:
    """A job that runs for minutes, and one or two things that happen to its cluster."""
    start = Start(
        job="a" * 32,
        attempt=0,
        version="2.2.1",
        running_s=-300.0,
        tasks_s=-298.5,
        parallelism=2,
        managers=("tm0", "tm1", "tm2"),
        turn=0,
        factor=1.0,
    )
    starts = [start]
    happens_s = random.uniform(*random.choice(WHEN_S))
    for _ in range(random.choice((1, 1, 2))):
        happen = random.choice((_restart, _restart, _loss, _loss, _rescaling, _another_job, _another_manager))
        starts[-1:] = happen(random, starts[-1], happens_s)
        happens_s = starts[-1].tasks_s + random.uniform(5.0, 40.0)
    return tuple(starts)


def _again(random: Random, before: Start, failed_s: float, **changes: Any) -> tuple[Start, Start]:
    """A start that fails then, and the next one, of a job that has other rates now."""
    running_s = failed_s + random.choice((0.005, random.uniform(0.5, 12.0)))
    after = replace(
        before.unending(),
        attempt=before.attempt + 1,
        running_s=running_s,
        tasks_s=running_s + random.choice((0.01, random.uniform(0.3, 3.0))),
        turn=random.randrange(3),
        factor=before.factor * random.choice((0.4, 2.5)),
    )
    return replace(before, failed_s=failed_s), replace(after, **changes)


def _restart(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    return _again(random, before, at_s)


def _loss(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    """A task manager is lost, which the cluster knows at once or by its heartbeat; another one comes."""
    lost = random.choice(before.managers)
    noticed_s = at_s + random.choice((0.1, random.uniform(1.0, 50.0)))
    number = 1 + max(int(manager.removeprefix("tm")) for manager in before.managers)
    managers = tuple(f"tm{number}" if manager == lost else manager for manager in before.managers)
    first, after = _again(random, before, noticed_s, managers=managers)
    return replace(first, lost=lost, lost_s=at_s), after


def _rescaling(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    return _again(random, before, at_s, parallelism=random.choice((1, 3, 4)))


def _another_job(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    job = chr(ord(before.job[0]) + 1) * 32
    return _again(random, before, at_s, job=job, attempt=0, parallelism=random.choice((1, 2, 3)))


def _another_manager(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    """Another job manager, of another Flink, goes on with the job under the same id."""
    return _again(random, before, at_s, attempt=0, version="1.20.5")


_ONE_OF = 50
"""One answer of so many is in trouble."""


def _reset(request: BaseHTTPRequestHandler, body: bytes) -> None:
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


def _unavailable(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 503, b'{"errors": ["Service temporarily unavailable due to an ongoing leader election."]}')


def _breaks_off(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 200, body[: len(body) // 2], len(body))


def _half(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 200, body[: len(body) // 2])


def _never(request: BaseHTTPRequestHandler, body: bytes) -> None:
    request.connection.recv(1)  # until the client has enough of it


TROUBLES: tuple[Callable[[BaseHTTPRequestHandler, bytes], None], ...] = (
    _reset,
    _reset,
    _unavailable,
    _unavailable,
    _breaks_off,
    _half,
    _never,
)


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/json; charset=UTF-8")
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def troubled(cluster: Answers, random: Random) -> Iterator[str]:
    """The address of a server that answers as the cluster does, most of the time."""
    one_at_a_time = threading.Lock()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with one_at_a_time:
                answer: Any = cluster.answer(self.path)
                trouble = random.choice(TROUBLES) if random.random() * _ONE_OF < 1 else None
            refused = isinstance(answer, Refused)
            body = json.dumps({"errors": [answer.text]} if refused else answer).encode()
            with suppress(OSError):
                if trouble is not None:
                    trouble(self, body)
                else:
                    _send(self, answer.code if refused else 200, body)

        def finish(self) -> None:
            with suppress(OSError, ValueError):  # of a connection that was reset
                super().finish()

    with serving_on_loopback(Handler) as url:
        yield url
