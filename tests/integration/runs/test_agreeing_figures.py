"""One job, and every command that says something of it: a figure that they share is the same everywhere."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from integration.base.number_text import figure, milliseconds, per_second, percent
from integration.base.reading import load_result
from integration.cli.app import main
from integration.runs.window_figures import figures_of
from integration.show.terminal.run import summary_table
from netstack import Result, from_json

REFERENCES = Path(__file__).parents[2] / "data" / "flink-reference"
JOBS = ("2x2_200KBs_off", "2x2_200KBs_on1s", "4x4_1MBs_skewed_consumers_off")


@pytest.fixture(scope="module", params=JOBS)
def file(request: pytest.FixtureRequest) -> Path:
    return REFERENCES / f"{request.param}.toml"


def output_of(arguments: list[str]) -> str:
    """What a command prints."""
    out = TextIOWrapper(BytesIO(), "utf-8")
    with redirect_stdout(out):
        assert main(arguments) == 0
    out.flush()
    return out.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def printed(file: Path) -> str:
    """What `run` prints."""
    return output_of(["run", str(file)])


@pytest.fixture(scope="module")
def kept(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the result of the same run."""
    kept = tmp_path_factory.mktemp("kept") / "result.json"
    kept.write_text(output_of(["run", str(file), "--json"]), "utf-8")
    return kept


@pytest.fixture
def result(kept: Path) -> Result:
    return load_result(kept)


def report(result: Result) -> dict[str, str]:
    """The numbers that the page of a run has, by their names."""
    return {row.name: row.texts[0] for row in summary_table({"run": result}).rows}


def test_run_and_report_say_the_same_of_checkpoints_and_throughput(printed: str, result: Result) -> None:
    figures = figures_of(result)
    end_to_end, records = figures.end_to_end_ms, figures.throughput_per_s
    assert end_to_end is not None
    assert records is not None
    assert f"end to end {figure(end_to_end)} ms" in printed
    assert report(result)["End to end"] == milliseconds(end_to_end)
    last = printed.split("\nstage1", 1)[1].split()
    assert last[3] == figure(records)
    assert report(result)["Throughput"] == per_second(records)


@pytest.mark.long
def test_tune_and_a_run_print_the_same_of_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the present setting, with the scenario's seed, tune runs what `run` does."""
    file = str(REFERENCES / "2x2_200KBs_on1s.toml")
    main(["tune", file, "--only", "adaptive", "--seeds", "1", "--verbose"])
    told = capsys.readouterr().out
    figures = dict(re.findall(r"^  ([A-Z].*?): (.*)$", told, re.MULTILINE))
    assert main(["run", file]) == 0
    printed = capsys.readouterr().out
    assert main(["run", file, "--json"]) == 0
    result = from_json(capsys.readouterr().out)
    shown = report(result)
    for ours, theirs in (
        ("Checkpoint", "End to end"),
        ("In flight", "Bytes in flight"),
        ("Start delay", "Start delay"),
        ("Alignment", "Alignment"),
    ):
        assert figures[ours] == shown[theirs]
    assert printed.count(f" {shown['Buffer size']} ") == 1


@pytest.fixture
def debloated() -> Path:
    return REFERENCES / "2x2_200KBs_on1s.toml"


@pytest.mark.long
def test_bytes_have_binary_units_everywhere(
    debloated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page = tmp_path / "report/2x2_200KBs_on1s.json", tmp_path / "report/report.html"
    measured = str(debloated.with_suffix(".json"))
    told = {}
    for name, arguments in {
        "run": ["run", str(debloated), "--out", str(page.parent)],
        "size": ["size", str(debloated)],
        "diagnose": ["diagnose", str(kept), "--verbose"],
        "compare": ["compare", str(kept), measured],
        "compare two": ["compare", str(kept), str(kept)],
    }.items():
        main(arguments)
        told[name] = capsys.readouterr().out
    text = re.sub(r"<(script|style|pre).*?</\1>", "", page.read_text("utf-8"), flags=re.DOTALL)
    told["report"] = text.replace("\xa0", " ")
    assert [name for name, text in told.items() if not re.search(r"\d [KM]iB\b", text)] == []
    others = {name: re.findall(r"\d ?(?:[kMG]B|[kmg]b)\b\S*", text) for name, text in told.items()}
    assert not any(others.values()), others
    (buffer,) = re.findall(r"^stage1.* (\S+ KiB) ", told["run"], re.MULTILINE)
    assert buffer in told["compare"]
    assert buffer in told["compare two"]
    assert buffer in told["report"]


def test_size_and_diagnose_give_the_rate_of_a_consumer_in_the_same_unit(
    debloated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["size", str(debloated)])
    ((subtasks, each),) = re.findall(
        r"^stage1, (\d+) subtasks of .*, (\S+) KiB/s each", capsys.readouterr().out, re.MULTILINE
    )
    main(["run", str(debloated), "--json"])
    kept = tmp_path / "result.json"
    kept.write_text(capsys.readouterr().out, "utf-8")
    main(["diagnose", str(kept), "--verbose"])
    (rate,) = re.findall(r" at (\S+) KiB/s", re.sub(r"\s+", " ", capsys.readouterr().out))
    assert float(rate) == pytest.approx(int(subtasks) * float(each), rel=0.05)  # computed


def test_diagnose_and_report_say_the_same(
    kept: Path, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diagnose", str(kept), "--verbose"])
    told = re.sub(r"\s+", " ", capsys.readouterr().out)
    shown, figures = report(result), figures_of(result)
    assert f"{shown['End to end']} from trigger to completion" in told
    assert f"start delay {shown['Start delay']}" in told
    share = figures.sender_share
    assert share is not None
    waiting = re.search(
        r"(\S+ \S+) of data waits before stage1, (\d+ %) of it at the senders: at \S+ KiB/s, that takes "
        r"(\S+ \S+) ",
        told,
    )
    if waiting is not None:  # else it says so of some subtasks alone
        assert waiting[1] == shown["Bytes in flight"]
        assert waiting[2] == percent(share)
        assert waiting[3] == milliseconds(1000 * (figures.in_flight_s or 0.0))
    assert waiting is not None or "waits before stage1[" in told


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
