"""A Prometheus that answers the queries of an import from series in memory, without a server."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from integration.flink.http.answers import Past, Refused
from tests.integration.flink.flink_cluster import ReplayedCluster

LOOKBACK_S = 300.0
Labels = Mapping[str, str]

_QUERY = re.compile(r"(max|count) by \(([\w,]+)\) \(\{(.*?)\}\)(?: and on .*)?")
_MATCHER = re.compile(r'(\w+)=~"((?:[^"\\]|\\.)*)"')


@dataclass
class Scraped:
    """Series by their labels, whose values are None from the moment at which they are stale."""

    name: str = "http://prometheus:9090"
    past: Past | None = None
    series: dict[tuple[tuple[str, str], ...], dict[float, float | None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def add(self, name: str, at: float, value: float | None, **labels: str) -> None:
        """Add one value, or the end of the series."""
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.series.setdefault(key, {})[at] = value

    def relabel(self, change: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        """Change the labels of all series; a series is dropped where there are none."""
        changed = [(change(dict(key)), values) for key, values in self.series.items()]
        self.series = {tuple(sorted(new.items())): values for new, values in changed if new is not None}

    def pause(self, seconds: float) -> None:
        """Past figures need no wait."""

    def clock(self) -> float:
        """Return a time."""
        return 0.0

    def answer(self, path: str) -> Any | Refused:
        """Answer a range query."""
        self.asked.append(path)
        asked = dict(parse_qsl(path.partition("?")[2]))
        found = _QUERY.fullmatch(asked["query"])
        assert found is not None, asked["query"]
        aggregation, by, matchers = found[1], found[2].split(","), dict(_MATCHER.findall(found[3]))
        step, end = float(asked["step"]), float(asked["end"])
        moments = [float(asked["start"])]
        while moments[-1] + step <= end + 1e-6:
            moments.append(moments[-1] + step)
        groups: dict[tuple[tuple[str, str], ...], dict[float, list[float]]] = {}
        for labels, values in self._matching(matchers):
            group = groups.setdefault(tuple((each, labels[each]) for each in by if labels.get(each)), {})
            times = sorted(values)
            for at in moments:
                last = bisect_right(times, at) - 1
                value = values[times[last]] if last >= 0 and times[last] > at - LOOKBACK_S else None
                if value is not None:
                    group.setdefault(at, []).append(value)
        combined = max if aggregation == "max" else len
        result = [
            {"metric": dict(group), "values": [[at, str(combined(each))] for at, each in sorted(of.items())]}
            for group, of in groups.items()
            if of
        ]
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}

    def _matching(self, matchers: Labels) -> Iterator[tuple[dict[str, str], Mapping[float, float | None]]]:
        patterns = {
            label: re.compile(text.replace("\\\\", "\\").replace("\\x26", "&"))
            for label, text in matchers.items()
        }
        for key, values in self.series.items():
            labels = dict(key)
            if all(pattern.fullmatch(labels.get(label, "")) for label, pattern in patterns.items()):
                yield labels, values


def scraped(
    cluster: ReplayedCluster,
    begin_s: float,
    seconds: float,
    *,
    every_s: float = 15.0,
    load: Callable[[float], float] = lambda at_s: 1.0,
    restarts_at: float | None = None,
) -> Scraped:
    """Scrape a made-up run of the job of a recorded cluster.

    Each subtask reads and emits 100 records of 100 bytes per second at load 1, busy for half of the time. A
    checkpoint completes at each scrape, and takes a second at load 1. If the job restarts, its counters
    begin again, in a second attempt.
    """
    prometheus = Scraped()
    job = cluster.job
    vertices = cluster.answers[f"/jobs/{job}"]["vertices"]
    managers: set[str] = set()
    for vertex in vertices:
        places = cluster.answers[f"/jobs/{job}/vertices/{vertex['id']}"]["subtasks"]
        for place in places:
            manager = re.sub(r"[^a-zA-Z0-9:_]", "_", place["taskmanager-id"])
            managers.add(manager)
            labels = {
                "job_id": job,
                "job_name": "a_job",
                "task_id": vertex["id"],
                "subtask_index": str(place["subtask"]),
                "tm_id": manager,
                "host": "127_0_0_1",
            }
            _scrape_task(prometheus, labels, begin_s, seconds, every_s, load, restarts_at)
    for number in range(int(seconds / every_s) + 1):
        at = begin_s + number * every_s
        of_job = {"job_id": job, "job_name": "a_job"}
        for name, value in {
            "lastCheckpointDuration": 1000 * load(at),
            "numberOfCompletedCheckpoints": number,
            "numberOfFailedCheckpoints": 0,
            "lastCheckpointFullSize": 5000,
            "lastCheckpointProcessedData": 700,
            "lastCheckpointPersistedData": 0,
            "numRestarts": int(restarts_at is not None and at >= restarts_at),
        }.items():
            prometheus.add(f"flink_jobmanager_job_{name}", at, value, **of_job)
        for manager in managers:
            beginning = "flink_taskmanager_Status_"
            prometheus.add(f"{beginning}JVM_CPU_Time", at, 5e8 * number * every_s, tm_id=manager)
            prometheus.add(f"{beginning}JVM_CPU_Load", at, 0.25, tm_id=manager)
            prometheus.add(f"{beginning}Shuffle_Netty_TotalMemorySegments", at, 2048, tm_id=manager)
    return prometheus


def _scrape_task(
    prometheus: Scraped,
    labels: Labels,
    begin_s: float,
    seconds: float,
    every_s: float,
    load: Callable[[float], float],
    restarts_at: float | None,
) -> None:
    counts = {
        "numRecordsIn": 0.0,
        "numRecordsOut": 0.0,
        "numBytesIn": 0.0,
        "numBytesOut": 0.0,
        "numBuffersInRemote": 0.0,
        "numBuffersInLocal": 0.0,
        "numBuffersOut": 0.0,
        "accumulateBusyTimeMs": 0.0,
        "accumulateIdleTimeMs": 0.0,
        "accumulateBackPressuredTimeMs": 0.0,
    }
    attempt = 0
    for number in range(int(seconds / every_s) + 1):
        at = begin_s + number * every_s
        if restarts_at is not None and at >= restarts_at and not attempt:
            for name in (*counts, "checkpointStartDelayNanos"):
                task = {**labels, "task_attempt_num": str(attempt)}
                prometheus.add(f"flink_taskmanager_job_task_{name}", at, None, **task)
            counts, attempt = dict.fromkeys(counts, 0.0), 1
        records, busy = 100 * every_s * load(at), min(1.0, 0.5 * load(at))
        for name in counts:
            counts[name] += {
                "numRecordsIn": records,
                "numRecordsOut": records,
                "numBytesIn": 100 * records,
                "numBytesOut": 100 * records,
                "accumulateBusyTimeMs": 1e3 * every_s * busy,
                "accumulateIdleTimeMs": 1e3 * every_s * (1 - busy),
                "accumulateBackPressuredTimeMs": 0.0,
            }.get(name, records / 50)
        task = {**labels, "task_attempt_num": str(attempt)}
        gauges = {
            "numRecordsInPerSecond": 100 * load(at),
            "numRecordsOutPerSecond": 100 * load(at),
            "Shuffle_Netty_Input_Buffers_inPoolUsage": 0.5,
            "checkpointStartDelayNanos": 4e8 * load(at),
            "checkpointAlignmentTime": 1e8 * load(at),
        }
        for name, value in (counts | gauges).items():
            prometheus.add(f"flink_taskmanager_job_task_{name}", at, value, **task)
