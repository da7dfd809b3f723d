"""One job, and every command that says something of it: a figure that they share is the same everywhere."""

import json
import re
from pathlib import Path

import pytest

from integration.analysis.window_figures import figures_of
from integration.analysis.wording import milliseconds, per_second, percent, size
from integration.cli.app import main
from integration.files.reading import load_result
from integration.report.comparison_text import figure
from integration.report.tables import summary_table
from integration.tuning.measures import measure
from netstack import Result

REFERENCES = Path(__file__).parents[1] / "data" / "flink-reference"
JOBS = ("2x2_200KBs_off", "2x2_200KBs_on1s", "4x4_1MBs_skewed_consumers_off")


@pytest.fixture(params=JOBS)
def file(request: pytest.FixtureRequest) -> Path:
    return REFERENCES / f"{request.param}.toml"


@pytest.fixture
def printed(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `run` prints."""
    assert main(["run", str(file)]) == 0
    return capsys.readouterr().out


@pytest.fixture
def kept(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A file with the result of the same run."""
    assert main(["run", str(file), "--json"]) == 0
    kept = tmp_path / "result.json"
    kept.write_text(capsys.readouterr().out, "utf-8")
    return kept


@pytest.fixture
def result(kept: Path) -> Result:
    return load_result(kept)


def report(result: Result) -> dict[str, str]:
    """The numbers that the page of a run has, by their names."""
    return {row.name: row.texts[0] for row in summary_table({"run": result}).rows}


def test_run_and_report_say_the_same_of_checkpoints_and_throughput(printed: str, result: Result) -> None:
    figures = figures_of(result)
    end_to_end, records = figures.end_to_end_ms, figures.records_per_s
    assert end_to_end is not None
    assert records is not None
    assert f"end to end {figure(end_to_end)} ms" in printed
    assert report(result)["End to end"] == milliseconds(end_to_end)
    last = printed.split("\nstage1", 1)[1].split()
    assert last[3] == figure(records)
    assert report(result)["Throughput"] == per_second(records)


def test_tune_and_report_measure_a_run_alike(result: Result) -> None:
    figures, measures = figures_of(result), measure(result)
    assert measures.end_to_end_ms == pytest.approx(figures.end_to_end_ms, abs=0.01)
    assert measures.start_delay_ms == pytest.approx(figures.start_delay_ms, abs=0.01)
    assert measures.alignment_ms == pytest.approx(figures.alignment_ms, abs=0.01)
    assert measures.in_flight_bytes == pytest.approx(figures.in_flight_bytes, abs=0.01)
    assert measures.throughput_per_s == pytest.approx(figures.records_per_s, abs=0.06)
    smallest = measures.debloated_buffer_min_bytes or result.scenario.config.segment_bytes
    assert report(result)["Buffer size"] == size(smallest)


def test_diagnose_and_report_say_the_same(
    kept: Path, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diagnose", str(kept)])
    told = re.sub(r"\s+", " ", capsys.readouterr().out)
    shown, figures = report(result), figures_of(result)
    assert f"{shown['End to end']} from trigger to completion" in told
    assert f"start delay {shown['Start delay']}" in told
    share = figures.sender_share
    assert share is not None
    waiting = re.search(r"(\S+ \S+) wait before stage1, (\d+ %) at the senders: (\S+ m?s) at", told)
    if waiting is not None:  # else it says so of some subtasks alone
        assert waiting[1] == shown["Bytes in flight"]
        assert waiting[2] == percent(share)
        assert waiting[3] == milliseconds(1000 * (figures.in_flight_s or 0.0))
    assert waiting is not None or "wait before stage1[" in told


def test_size_and_a_run_agree_on_buffers_and_throughput(
    file: Path, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["size", str(file), "--json"]) == 0
    sizes = json.loads(capsys.readouterr().out)["size"]
    consumer, exchange = sizes["consumers"][0], sizes["exchanges"][0]
    steady = result.steady[-1].vertices[-1]
    rates = [rate or 0.0 for rate in steady.records_in_per_s]
    assert consumer["records_per_s"] * len(rates) == pytest.approx(sum(rates), rel=0.05)  # computed
    assert sizes["segment_bytes"] == result.scenario.config.segment_bytes
    most = exchange["exclusive"] + exchange["floating_most"]
    queued = [length or 0.0 for length in steady.inputQueueLength]
    assert 0 < max(queued) <= most  # no more waits at a receiver than it has buffers for


def test_where_nothing_is_debloated_size_knows_the_time_of_a_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = REFERENCES / "2x2_200KBs_off.toml"
    assert main(["size", str(file), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["size"]["consumers"][0]["expected_drain_ms"]
    assert main(["run", str(file), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steady"][-1]["end_to_end_ms"] == pytest.approx(expected, rel=0.03)
