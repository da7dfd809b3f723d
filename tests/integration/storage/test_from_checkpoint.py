"""Runs that are killed, and others that go on from what they have left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from buffers import RecordBlock
from integration.cli.app import main
from integration.cli.exit_status import FAILED, MISTAKE
from integration.storage import DirectoryStorage, TransactionDirectory, find_checkpoint
from integration.storage.directory import LOCK_NAME
from netstack import (
    CollectionSource,
    Edge,
    NetworkConfig,
    Scenario,
    SourceObject,
    StorageError,
    StoredFile,
    Transaction,
    TransactionLog,
    Vertex,
    emulate,
    from_json,
    key_sum,
    metadata_path,
    transactional_sink,
)

KEYS = 5
COUNT = 400
MODES = {
    "aligned": {},
    "unaligned": {"unaligned_enabled": True},
}


def number_of(record: bytes | memoryview) -> int:
    return int(bytes(record).split(b":")[0])


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    return np.array([number_of(payload) % KEYS for payload in block.payloads()], dtype=np.int32)


def sums_job(commit: Callable[[Transaction], None], **settings: object) -> Scenario:
    """Two sources whose records are committed as they are, and as sums by key at the end."""
    numbers = [b"%d:%s" % (number, b"x" * (number % 200)) for number in range(COUNT)]
    config = {
        "checkpoint_interval_s": 0.1,
        "segment_bytes": 1024,
        "exclusive_buffers_per_channel": 1,
        "floating_buffers_per_gate": 2,
        "state_memory_threshold_bytes": 0,
    }
    source = CollectionSource([numbers, numbers], key_hash=key_hash)
    return Scenario(
        name="killed sums",
        duration_s=60.0,
        config=NetworkConfig(**(config | settings)),  # type: ignore[arg-type]
        vertices=(
            Vertex(name="numbers", parallelism=2, source=SourceObject(source=source, rates=(0.0,))),
            Vertex(
                name="sums",
                parallelism=2,
                service=((0.0, 0.002),),
                operator=key_sum(lambda record: (b"k%d" % (number_of(record) % KEYS), number_of(record))),
            ),
            Vertex(name="out", parallelism=2, operator=transactional_sink(commit)),
            Vertex(name="copy", parallelism=2, operator=transactional_sink(commit)),
        ),
        edges=(
            Edge(source="numbers", target="sums", ship="hash"),
            Edge(source="sums", target="out"),
            Edge(source="numbers", target="copy"),
        ),
    )


FILE = """\
name = "short"
duration = "4 s"

[flink]
"execution.checkpointing.interval" = "500 ms"
"execution.checkpointing.dir" = "{directory}"
"execution.checkpointing.num-retained" = 2
"state.storage.fs.memory-threshold" = 0

[[vertices]]
name = "source"
source = {{ record_bytes = 100, rate = 100 }}

[[vertices]]
name = "stage"

[[edges]]
from = "source"
to = "stage"
"""


def undisturbed(**settings: object) -> list[bytes]:
    log = TransactionLog()
    emulate(sums_job(log.commit, **settings))
    return sorted(log.records)


CHILD = """
import os, signal, sys
from tests.integration.storage.test_from_checkpoint import sums_job
from integration.storage import DirectoryStorage, TransactionDirectory, find_checkpoint
from netstack import emulate

root, out, when, settings = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])
log = TransactionDirectory(out, resume="resume" in sys.argv[5:])
commits = 0

def commit(transaction):
    global commits
    commits += 1
    if when == f"commit {commits}":
        os.kill(os.getpid(), signal.SIGKILL)
    log.commit(transaction)

def trace(at, place, text, checkpoint_id):
    if text.startswith(when):
        os.kill(os.getpid(), signal.SIGKILL)

initial = find_checkpoint(root) if "resume" in sys.argv[5:] else None
emulate(sums_job(commit, **settings), storage=DirectoryStorage(root), from_checkpoint=initial, trace=trace)
"""


def run_and_kill(tmp_path: Path, when: str, settings: object, *more: str) -> None:
    """Run the job in a process of its own, which kills itself at a step of a checkpoint, or in a commit."""
    arguments = [str(tmp_path / "checkpoints"), str(tmp_path / "out"), when, repr(settings), *more]
    root = str(Path(__file__).parents[3])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr


@pytest.mark.parametrize(
    ("mode", "moments"),
    [
        ("aligned", ["checkpoint 4 is complete", "triggers checkpoint 7"]),
        ("unaligned", ["triggers checkpoint 4", "commit 12"]),
    ],
)
def test_a_killed_run_that_is_continued_puts_out_what_an_undisturbed_one_does(
    tmp_path: Path, mode: str, moments: list[str]
) -> None:
    settings = MODES[mode]
    run_and_kill(tmp_path, moments[0], settings)
    before = find_checkpoint(tmp_path / "checkpoints")
    assert 0 < len(TransactionDirectory(tmp_path / "out", resume=True).records) < 2 * COUNT
    run_and_kill(tmp_path, moments[1], settings, "resume")
    log = TransactionDirectory(tmp_path / "out", resume=True)
    storage = DirectoryStorage(tmp_path / "checkpoints")
    initial = find_checkpoint(tmp_path / "checkpoints")
    assert initial.metadata.checkpoint_id > before.metadata.checkpoint_id
    assert before.metadata.checkpoint_id in storage.checkpoints()  # it is not the new run's to delete
    result = emulate(sums_job(log.commit, **settings), storage=storage, from_checkpoint=initial)
    assert sorted(log.records) == undisturbed(**settings)
    assert result.started_from.checkpoint_id == initial.metadata.checkpoint_id  # type: ignore[union-attr]
    assert result.started_from.running_at is not None  # type: ignore[union-attr]
    assert min(checkpoint.id for checkpoint in result.checkpoints) >= initial.next_id
    assert result.restarts == []
    # Whoever was killed holds nothing any more, though its name stands there.
    assert (tmp_path / "checkpoints" / LOCK_NAME).exists()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def scenario(tmp_path: Path, directory: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A scenario that has been run, so that its directory has two checkpoints."""
    file = tmp_path / "short.toml"
    file.write_text(FILE.format(directory=directory))
    assert main(["run", str(file)]) == 0
    capsys.readouterr()
    return file


def files(directory: Path) -> dict[Path, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file() and path.name != LOCK_NAME]
    return {path: path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("what", "clock"),
    [
        ("", []),
        ("/", ["--real-time"]),
        ("/chk-{}", []),
        ("/chk-{}/", []),
        ("/chk-{}/_metadata", []),
    ],
)
def test_a_checkpoint_is_named_by_its_folder_its_metadata_or_the_directory(
    scenario: Path, directory: Path, what: str, clock: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if clock:
        scenario.write_text(scenario.read_text().replace('"4 s"', '"1200 ms"'))
    older, last = DirectoryStorage(directory).checkpoints()
    before = files(directory)
    given = f"{directory}{what.format(last)}"
    assert main(["run", str(scenario), "--from-checkpoint", given, "--json", *clock]) == 0
    result = from_json(capsys.readouterr().out)
    start = result.started_from
    assert start is not msgspec.UNSET
    assert (start.checkpoint_id, start.path) == (last, f"{directory}/chk-{last}")
    assert start.restored_bytes > 0
    assert result.checkpoints[0].id == last + 1
    assert files(directory).items() > before.items()
    assert DirectoryStorage(directory).checkpoints()[:2] == [older, last]


def test_the_table_says_what_a_run_went_on_from(
    scenario: Path, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, last = DirectoryStorage(directory).checkpoints()
    scenario.write_text(FILE.format(directory=tmp_path / "others"))
    assert main(["run", str(scenario), "--from-checkpoint", f"{directory}/chk-{older}"]) == 0
    out = capsys.readouterr().out
    assert "0.0 s start continued from" in " ".join(out.split())
    assert f"{directory}/chk-{older}(" in "".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    # Ids go on behind all that lie beside it, also in another directory.
    assert DirectoryStorage(tmp_path / "others").checkpoints()[0] > last


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def newer(directory: Path, last: int) -> str:
    path = directory / metadata_path(last)
    path.write_bytes(path.read_bytes().replace(b"checkpoint/2", b"checkpoint/9"))
    return f"{directory}/chk-{last}"


def odd(directory: Path, last: int) -> str:
    (directory / metadata_path(last)).unlink()
    os.mkfifo(directory / metadata_path(last))
    return f"{directory}/chk-{last}"


def spoiled(directory: Path, last: int) -> str:
    spoil(next(path for path in (directory / f"chk-{last}").iterdir() if path.name != "_metadata"))
    return str(directory)


def spoiled_metadata(directory: Path, last: int) -> str:
    spoil(directory / metadata_path(last))
    return str(directory)


def incomplete(directory: Path, last: int) -> str:
    (directory / metadata_path(last)).unlink()
    return f"{directory}/chk-{last}"


MISTAKES: dict[str, tuple[Callable[[Path, int], str], str]] = {
    "nothing there": (lambda directory, last: f"{directory}/nowhere", "nowhere: there is no such checkpoint"),
    "no such one": (lambda directory, last: f"{directory}/chk-99", "chk-99: there is no such checkpoint"),
    "empty": (lambda directory, last: str(directory.parent), ": contains no checkpoints"),
    "a device": (lambda directory, last: "/dev/zero", "/dev/zero: there is no such checkpoint"),
    "not complete": (incomplete, "is not complete: it has no _metadata"),
    "damaged": (
        spoiled,
        "is damaged: chk-{last}/source-0-operator does not have the checksum of the bytes that were written",
    ),
    "damaged metadata": (spoiled_metadata, "; to continue from an older checkpoint, name it: chk-{older}"),
    "of a newer version": (newer, "it has the format 'netstack.checkpoint/9', but only "),
    "odd": (odd, "/_metadata is not a regular file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_gone_on_from_is_one_line_before_the_run(
    scenario: Path, directory: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = MISTAKES[name]
    older, last = DirectoryStorage(directory).checkpoints()
    given = make(directory, last)
    before = files(directory)
    assert main(["run", str(scenario), "--from-checkpoint", given]) == MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("netstack run: --from-checkpoint: ")
    assert message.format(older=older, last=last) in captured.err
    assert files(directory) == before


MORE = """[[vertices]]
name = "more"

[[edges]]
from = "source"
to = "more"

[[edges]]"""

MISFITS = [
    (
        '"short"',
        '"other"',
        "the checkpoint is from the job 'short', but this job is 'other'; restore a checkpoint of this job",
    ),
    (
        'name = "source"',
        'name = "source"\nparallelism = 129',
        "source has parallelism 129 in the job, but the maximum parallelism of its state in the checkpoint "
        "is 128",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MISFITS)
def test_a_checkpoint_of_another_job_is_refused_before_the_run(
    scenario: Path, directory: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = scenario.read_text()
    assert text.count(old) == 1
    scenario.write_text(text.replace(old, new))
    before = files(directory)
    assert main(["run", str(scenario), "--from-checkpoint", str(directory)]) == MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err
    assert files(directory) == before


def test_vertices_and_edges_may_come_and_state_is_left_out_if_you_say_so(
    scenario: Path, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, begin = scenario.read_text(), ["--from-checkpoint", str(directory)]
    for old, new in (("[[edges]]", MORE), ('to = "stage"', 'to = "stage"\nship = "hash"')):
        scenario.write_text(text.replace(old, new))
        assert main(["run", str(scenario), *begin]) == 0
    scenario.write_text(text.replace('"source"', '"origin"'))
    before = files(directory)
    capsys.readouterr()
    assert main(["run", str(scenario), *begin]) == MISTAKE
    captured = capsys.readouterr()
    text = (
        "the checkpoint has state of source, but the job has only the vertices origin, stage; set "
        "--allow-non-restored-state"
    )
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert text in captured.err
    assert files(directory) == before
    assert main(["run", str(scenario), *begin, "--allow-non-restored-state"]) == 0


@pytest.mark.parametrize("clock", [[], ["--real-time"]])
def test_parallelism_may_be_another_one(
    scenario: Path, directory: Path, clock: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = scenario.read_text().replace('"4 s"', '"1200 ms"')
    scenario.write_text(text.replace('name = "stage"', 'name = "stage"\nparallelism = 3'))
    assert main(["run", str(scenario), "--from-checkpoint", str(directory), "--json", *clock]) == 0
    result = from_json(capsys.readouterr().out)
    assert result.failure is None
    assert len(result.series[1].numRecordsIn) == 3
    last = DirectoryStorage(directory).checkpoints()[-1]
    assert DirectoryStorage(directory).load(last).parallelism == {"source": 1, "stage": 3}


class Spoiling(DirectoryStorage):
    """Cuts the files short that a restart wants to read."""

    def read(self, file: StoredFile) -> bytes:
        path = Path(self.root, file.path)
        path.write_bytes(path.read_bytes()[:-1])
        return super().read(file)


def test_a_job_that_cannot_be_restored_fails_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("integration.storage.directory.DirectoryStorage", Spoiling)
    file = tmp_path / "short.toml"
    delay = '"restart-strategy.exponential-delay.initial-backoff" = "DELAY"\n\n[[vertices]]\nname = "source"'
    kill = '[[faults]]\nkind = "kill_subtask"\nvertex = "stage"\nsubtask = 0\nat = "2200 ms"\n'
    text = FILE.format(directory=tmp_path / "checkpoints") + kill
    text = text.replace('\n[[vertices]]\nname = "source"', delay.replace("DELAY", "100 ms"))
    file.write_text(text)
    assert main(["run", str(file)]) == FAILED
    captured = capsys.readouterr()
    out = " ".join(captured.out.split())
    newer, older = re.findall(r"restarting from checkpoint (\d+) failed", out)
    assert int(newer) == int(older) + 1
    assert "restored checkpoint" not in out
    assert f"end of the job checkpoint {older} cannot be restored: chk-{older}/source-0-operator has" in out
    assert f"checkpoint {older} cannot be restored" in captured.err
    assert captured.err.endswith("; there is no other checkpoint to restore\n")
    assert max(map(len, captured.out.splitlines())) <= 80
    # The same where the time was over before the older one was tried.
    file.write_text(text.replace("100 ms", "1 s").replace('/checkpoints"', '/others"'))
    assert main(["run", str(file)]) == FAILED
    assert capsys.readouterr().err.endswith("; the run ended before an older checkpoint was tried\n")


def test_output_of_an_earlier_run_is_not_mixed_with_that_of_another(tmp_path: Path) -> None:
    first = TransactionDirectory(tmp_path)
    first.commit(Transaction("out", 0, 1, (b"a",)))
    first.commit(Transaction("out", 0, 1, (b"a",)))
    with pytest.raises(StorageError, match="contains transactions of an earlier run"):
        TransactionDirectory(tmp_path)
    again = TransactionDirectory(tmp_path, resume=True)
    with pytest.raises(StorageError, match=r"out-0-1\.transaction has already been committed by another run"):
        again.commit(Transaction("out", 0, 1, (b"b",)))
    again.commit(Transaction("out", 1, 1, (b"b", b"c")))
    assert again.records == [b"a", b"b", b"c"]


WINDOWS = """\
name = "windows"
duration = "{seconds} s"

[flink]
"execution.checkpointing.interval" = "500 ms"
"execution.checkpointing.unaligned.enabled" = true
"execution.checkpointing.dir" = "{directory}"

[[vertices]]
name = "source"
source = {{ record_bytes = 300, out_of_orderness = "0 s" }}

[[vertices]]
name = "work"
service = "2 ms"

[[vertices]]
name = "window"
emit_every = "1 s"
emit_by = "event_time"

[[vertices]]
name = "sink"

[[edges]]
from = "source"
to = "work"

[[edges]]
from = "work"
to = "window"
ship = "hash"

[[edges]]
from = "window"
to = "sink"
"""


def test_event_time_goes_on_behind_what_the_earlier_run_had_reached(
    tmp_path: Path, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else new watermarks would have to catch up with those in flight, and nothing would fire until then."""
    file = tmp_path / "windows.toml"
    file.write_text(WINDOWS.format(seconds=12, directory=directory))
    lags, fired = [], []
    for more in ([], ["--from-checkpoint", str(directory)]):
        assert main(["run", str(file), "--json", *more]) == 0
        window = from_json(capsys.readouterr().out).series[2]
        assert isinstance(window.watermark_lag_ms, list)
        lags.append([lag for lag in window.watermark_lag_ms[0] if lag is not None])
        fired.append(window.numRecordsOut[0][-1])
        file.write_text(WINDOWS.format(seconds=6, directory=tmp_path / "others"))
    assert lags[0][-1] > 1000
    file.write_text(WINDOWS.format(seconds=6, directory=tmp_path / "third"))
    assert main(["run", str(file)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("watermarks behind")]
    assert re.fullmatch(r"watermarks behind the clock, ms: source \d+, work \d+, window \d+, sink \d+", line)
    assert 0 < min(lags[1]) < max(lags[1]) < 2 * lags[0][-1]  # what was in flight is recovered on top
    assert fired[1] > 1500  # of 500 a second
