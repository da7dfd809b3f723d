"""Doors towards Flink: recordings of its REST API, the answers of a cluster, files with its options."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from integration.advise.diagnose.flink_job import diagnose_job
from integration.advise.lint.check import lint
from integration.base.errors import FlinkRestError
from integration.flink.fit.overrides import EVERYWHERE, Overrides
from integration.flink.http.live_cluster import LiveCluster
from integration.flink.importing import import_scenario
from integration.flink.recording import Recorder, Recording
from netstack import OPTIONS, InputError, Scenario, scenario_document, scenario_toml

from .damage import (
    MISTAKES,
    ODD_VALUES,
    ROOT,
    SELDOM,
    as_json,
    changed,
    damaged,
    documents,
    door,
    encoded,
    refused,
    words_in,
    written,
)

_JOINS = Overrides(inputs={EVERYWHERE: "join"})


@pytest.fixture(scope="module", autouse=True)
def joins_with_one_cost() -> Iterator[None]:
    """With `_JOINS`, an import then emulates nothing, because emulations take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("integration.flink.importing.unequal_inputs", lambda *_: [])
        yield


RECORDINGS = [
    json.loads(gzip.decompress(file.read_bytes()))
    for file in sorted([*ROOT.glob("tests/data/flink-rest/*.json.gz"), *ROOT.glob("docs/examples/*.json.gz")])
]
WORDS = words_in(*RECORDINGS)


@st.composite
def recordings(draw: st.DrawFn) -> bytes:
    """A recording with mistakes, most of them in answers; some are compressed."""
    tree: Any = draw(st.sampled_from(RECORDINGS))
    for _ in range(draw(MISTAKES)):
        answers = tree.get("answers") if isinstance(tree, dict) else None
        if isinstance(answers, dict) and answers and not draw(SELDOM):
            path = draw(st.sampled_from([*answers]))
            tree = {**tree, "answers": answers | {path: draw(changed(answers[path], WORDS))}}
        else:
            tree = draw(changed(tree, WORDS))
    data = draw(as_json(st.just(tree)))
    if draw(SELDOM):
        data = draw(damaged(st.just(gzip.compress(data, compresslevel=1, mtime=0)), SELDOM))
    return data


@door(recordings(), 0.2)
def test_recordings(data: bytes) -> bool:
    """A recording becomes a scenario and a recording of the same, or is refused; so with a diagnosis."""
    file = written("recording.json", data)
    try:
        recorder = Recorder(Recording(file))
        imported = import_scenario(recorder, overrides=_JOINS)
    except InputError as error:
        return refused(error)
    scenario_toml(imported.scenario, imported.notes)
    again = written("again.json", recorder.document(imported.scenario, imported.measured))
    replayed = import_scenario(Recording(again), overrides=_JOINS)
    assert _numbered(replayed.scenario) == _numbered(imported.scenario)
    try:
        msgspec.json.encode(diagnose_job(Recording(file), None, None))
    except InputError as error:
        refused(error)
    return True


def _numbered(scenario: Scenario) -> str:
    """A scenario whose task managers are numbered as they come, since a recording calls them tm0, tm1, ..."""
    document = scenario_document(scenario)
    places = [vertex.get("task_manager") for vertex in document["vertices"]]
    names = [name for place in places for name in (place if isinstance(place, list) else [place])]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names)) if name is not None}
    return json.dumps(_renamed(document, numbers))


def _renamed(value: Any, numbers: Mapping[str, int]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(inner, numbers) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(inner, numbers) for inner in value]
    return numbers.get(value, value) if isinstance(value, str) else value


_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
)
_HEADS = (
    _HEAD,
    b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 503 Later\r\nRetry-After: 5\r\nContent-Length: %d\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Bytes that a server may send to a GET."""
    body = draw(as_json(documents([{"jobs": [{"id": "a", "status": "RUNNING"}]}], ["jobs", "status", "id"])))
    head = draw(st.sampled_from((_HEAD, *_HEADS)))
    return draw(damaged(st.just(head % len(body) + body)))


class _Server:
    """Answers each connection with the same bytes, whatever it is asked, and closes it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.data = b""
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                connection.recv(1 << 16)
                try:
                    connection.sendall(self.data)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1 << 16)
                except OSError:
                    pass


_server = cache(_Server)


# A compressed answer that is damaged leaves generators within httpx for the garbage collector to close.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@door(answers(), 0.5)
def test_answers(data: bytes) -> bool:
    """An answer is JSON or a refusal with a status, or the cluster is refused."""
    server = _server()
    server.data = data
    try:
        answer = LiveCluster(server.url, timeout_s=5.0, sleep=lambda seconds: None).answer("/jobs")
    except FlinkRestError as error:
        return refused(error)
    return not hasattr(answer, "code")


_LINES = (
    "taskmanager.memory.segment-size: 32 kb",
    "taskmanager:\n  network:\n    memory:\n      buffer-debloat:\n        "
    "enabled: true\n        target: 1 s",
    "execution.checkpointing.interval: 5 s # often",
    "execution.checkpointing: {interval: 10 s, unaligned: {enabled: true}}",
    "state.backend.type: rocksdb",
    "anchor: &a [1, 2, {b: *a}]",
    "merged:\n  <<: &m {x: 1}\n  y: *m",
    "? [a, b]\n: c",
    "list:\n- a\n- b: 1",
    "text: |\n  several\n  lines",
    "---",
    "...",
    "%YAML 1.1",
    "!!python/object/apply:os.system [x]",
    "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nspec:\n  flinkVersion: v1_18\n"
    "  flinkConfiguration:\n    taskmanager.numberOfTaskSlots: '2'",
    "apiVersion: v1\nkind: ConfigMap\ndata:\n  flink-conf.yaml: |\n    a: 1\n    "
    "execution.checkpointing.interval: 3s\n  config.yaml: 'x: [1'",
    "apiVersion: v1\nkind: List\nitems:\n- {kind: FlinkDeployment, spec: {flinkConfiguration: {a: 1}}}",
)


@st.composite
def configurations(draw: st.DrawFn) -> tuple[str, bytes, str | None]:
    """A file of options in one of the formats, with any values, and a version of Flink."""
    lines = draw(st.lists(st.sampled_from(_LINES), min_size=1, max_size=4))
    for name in draw(st.lists(st.sampled_from([option.name for option in OPTIONS.values()]), max_size=6)):
        value = draw(ODD_VALUES)
        lines.append(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
    if draw(SELDOM):
        lines.append(draw(st.sampled_from(("[", "a: {", "- "))) * draw(st.sampled_from((50, 200, 3000))))
    data = draw(damaged(encoded("\n".join(lines) + "\n"), SELDOM))
    return (
        draw(st.sampled_from(("config.yaml", "flink-conf.yaml", "deployment.yaml"))),
        data,
        draw(st.sampled_from((None, "1.12", "1.20", "2.2"))),
    )


@door(configurations())
def test_configurations(name: str, data: bytes, flink: str | None) -> bool:
    """A file is checked, with every finding on one line, or is refused."""
    try:
        report = lint(written(name, data), flink)
    except InputError as error:
        return refused(error)
    msgspec.json.encode(report)
    for finding in report.findings:
        assert "\n" not in finding.message + finding.advice
    return True
