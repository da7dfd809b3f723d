"""``netstack verify``: the verdict, its table, its document and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.cli.app import main
from integration.cli.exit_status import FAILED, MISTAKE
from integration.show.terminal.console import WIDTH
from tests.integration.advise.tune.changed_job import AFTER, BEFORE, cluster, write_change
from tests.integration.flink.flink_cluster import ReplayedCluster


def command(folder: Path, made: ReplayedCluster | None = None) -> list[str]:
    package, recorded = folder / "change" / "change.json", folder / "after.json"
    package.parent.mkdir()
    write_change(package, recorded, made)
    return ["verify", str(package.parent), "--from-flink", str(recorded)]


def test_the_verdict_is_the_first_line_above_a_table_of_three_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The promise is kept: checkpoints take 350 ms (promised 35")
    assert lines[0].endswith("; before 1.51 s).")
    assert max(map(len, lines[1:])) <= WIDTH
    rows = {line[:20].strip(): line.split() for line in lines}
    assert rows["checkpoint"][1:3] == ["1.51", "s"]
    assert rows["checkpoint"][-3:] == ["350", "ms", "ok"]
    assert rows["throughput"][-2:] == ["398/s", "ok"]
    assert rows["failed checkpoints"][-3:] == ["0", "%", "ok"]
    assert rows["checkpoint, p95"][-2:] == ["350", "ms"]
    assert "before: measured in Flink. after: the last 8 completed checkpoints of job " in " ".join(lines)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (cluster(AFTER, durations_ms=900.0), "not kept"),
        (cluster(BEFORE, durations_ms=350.0), "not judged"),
    ],
    ids=["not kept", "not judged"],
)
def test_the_exit_status_is_one_unless_the_promise_is_kept(
    made: ReplayedCluster, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(tmp_path, made), "--json"]) == FAILED
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["verdict"]) == ("netstack.verification/1", verdict)
    assert [each["figure"] for each in found["figures"]] == [
        "checkpoint_ms",
        "checkpoint_p95_ms",
        "throughput_per_s",
        "failed_share",
    ]


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = command(tmp_path)
    assert main(["verify", str(tmp_path), *given[2:]]) == MISTAKE
    assert capsys.readouterr().err == (
        f"{tmp_path}: holds no change.json; give the folder change that tune writes beside its report\n"
    )
    assert main(["verify", given[3], *given[2:]]) == MISTAKE
    assert capsys.readouterr().err.startswith(f"{given[3]}: is not a change package, as tune writes it: ")
