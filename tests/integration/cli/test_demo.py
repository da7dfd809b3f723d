import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from integration.cli import exit_status
from integration.cli.app import main
from integration.runs.window_figures import figures_of
from integration.show.terminal.console import to_stdout
from integration.show.terminal.demo import print_demo
from integration.show.terminal.documents import DemoRuns
from integration.show.terminal.run import job_facts, summary_table
from integration.show.terminal.sentences import compare
from integration.spark import demo_job as flights
from integration.spark.demo_job import (
    CONSUMER_BYTES_PER_S,
    OFF,
    ON,
    DemoSettings,
    demo_scenarios,
    measure_data,
    spark_source,
)
from netstack import from_json, scenario_document, scenario_problems
from tests.integration.sample_results import sample_results
from tests.signals import ended_by

ROOT = Path(__file__).parents[3]

ROWS = 3000
SHARES = {"a": 0.6, "b": 0.3, "[c]": 0.1}


def write_rows(path):
    keys = [key for key, share in SHARES.items() for _ in range(int(share * ROWS))]
    lines = [f"{key},{number},{'x' * 90}" for number, key in enumerate(keys)]
    path.write_text("\n".join(["letter,number,filler", *lines]) + "\n")
    return path


def arguments_for(path, out, duration):
    return ["--input", str(path), "--key", "letter", "--duration", duration, "--out", str(out)]


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.csv")


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    """The demo on a small file, as a user runs it: its folder, and what it wrote to stdout and to stderr."""
    folder = tmp_path_factory.mktemp("demo")
    path = write_rows(folder / "rows.csv")
    arguments = arguments_for(path, folder / "report", "24 s")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["demo", *arguments]) == 0
    return folder / "report", out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def results(ran):
    folder, _, _ = ran
    names = {OFF: "debloating-off.json", ON: "debloating-on.json"}
    return {run: from_json((folder / name).read_bytes()) for run, name in names.items()}


@pytest.mark.spark
def test_demo_prints_the_job_the_numbers_and_the_sentence_in_80_columns(ran, results):
    folder, out, _ = ran
    flat = " ".join(out.split())

    assert max(map(len, out.splitlines()[:-1])) <= 80
    for text in (
        "rows.csv, 3,000 rows of",
        "in 4 Spark partitions",
        "letter has 3 values; 60 % of the rows have a",
        "source ×4 → hash → consumer ×4",
        "every 2 s, exactly once, aligned",
    ):
        assert text in flat
    assert compare(figures_of(results[OFF]), figures_of(results[ON])) in flat
    assert out.splitlines()[-1] == f"Report: {folder / 'report.html'}"


@pytest.mark.spark
def test_numbers_printed_are_the_results(ran, results):
    lines = [" ".join(line.split()) for line in ran[1].splitlines()]

    for row in summary_table(results).rows:
        assert " ".join([row.name, row.meaning, *row.texts]) in lines


@pytest.mark.spark
def test_demo_says_on_stderr_what_it_is_at(ran):
    lines = [line.split(":")[0] for line in ran[2].splitlines()]
    stages = [stage for stage, _ in groupby(lines)]  # long ones say more than once how far they are

    assert stages == ["starting Spark", "reading rows.csv", OFF, ON, "writing the report"]


@pytest.mark.spark
def test_demo_writes_the_report(ran):
    folder, _, _ = ran

    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "checkpoint-history.png",
        "buffer-size.png",
        "in-flight-time.png",
        "checkpoint-time.png",
        "load.png",
        "queue-length.png",
        "debloating-off.json",
        "debloating-on.json",
    }


@pytest.mark.spark
def test_debloating_is_all_that_the_runs_differ_in(results):
    off, on = (scenario_document(results[run].scenario) for run in (OFF, ON))

    assert {key: off[key] for key in off if key != "flink"} == {key: on[key] for key in on if key != "flink"}
    assert off["flink"]["taskmanager.network.memory.buffer-debloat.enabled"] is False
    assert on["flink"] == off["flink"] | {
        "taskmanager.network.memory.buffer-debloat.enabled": True,
        "taskmanager.network.memory.buffer-debloat.target": "1 s",
    }


@pytest.mark.spark
def test_the_busiest_consumer_is_the_bottleneck_and_two_sources_are_slow(results):
    source, consumer = results[OFF].steady[-1].vertices

    busy = [each / 1000 for each in consumer.busy_ms_per_s]
    assert max(busy) > 0.95
    assert max(consumer.bytes_in_per_s) == pytest.approx(CONSUMER_BYTES_PER_S, rel=0.1)
    fast, slow = source.records_out_per_s[:2], source.records_out_per_s[2:]
    assert max(slow) == pytest.approx(0.1 * max(consumer.records_in_per_s), rel=0.1)
    assert min(fast) > max(slow)


@pytest.mark.spark
def test_every_gauge_of_bytes_in_flight_was_fed(results):
    assert all(figures_of(result).in_flight_bytes for result in results.values())


@pytest.mark.spark
@pytest.mark.long
def test_json_is_one_document_with_both_results(spark, rows, tmp_path, capsys):
    arguments = arguments_for(rows, tmp_path / "out", "10 s")

    assert main(["demo", *arguments, "--json", "--seed", "7", "--target", "200 ms"]) == 0

    document = msgspec.json.decode(capsys.readouterr().out, type=DemoRuns)
    assert document.schema == "netstack.demo/1"
    off, on = (from_json(bytes(written)) for written in (document.off, document.on))
    assert document.finding == compare(figures_of(off), figures_of(on))
    assert off.seed == on.seed == 7
    assert on.scenario.config.debloat_target_s == 0.2


@pytest.mark.spark
def test_data_are_described_by_what_they_hold(spark, rows):
    settings = DemoSettings(path=rows, name="rows", key="letter", repartition=True)

    with spark_source(settings) as source:
        data = measure_data(source, settings)
        scenarios = demo_scenarios(source, data, settings)

    assert (data.rows, data.partitions, data.keys) == (ROWS, 4, 3)
    assert (data.top_key, data.top_share) == ("a", 0.6)
    assert data.record_bytes == pytest.approx(100, abs=10)
    assert all(scenario_problems(scenario) == [] for scenario in scenarios.values())


@pytest.mark.spark
@pytest.mark.long
def test_few_rows_leave_some_sources_without_any(spark, tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text(f"key,value\n1,{'x' * 5000}\n2,{'y' * 5000}\n")

    arguments = ["--input", str(path), "--key", "key", "--duration", "10 s", "--out", str(tmp_path / "out")]
    assert main(["demo", *arguments]) == 0

    assert "2 rows of" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        ("key,value\n", "key", "netstack: {path}: contains no rows"),
        ("key,value\n1,2\n", "carrier", "there is no key column 'carrier'; the columns are: key, value"),
    ],
)
def test_data_that_will_not_do_are_one_line(spark, tmp_path, capsys, content, key, message):
    path = tmp_path / "data.csv"
    path.write_text(content)

    arguments = ["--input", str(path), "--key", key, "--out", str(tmp_path / "out")]
    assert main(["demo", *arguments]) == exit_status.MISTAKE

    captured = capsys.readouterr()
    assert captured.out == ""
    assert message.format(path=path) in captured.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nothing.csv", "--key", "a"], "nothing.csv: no such file or folder"),
        (["--input", "{rows}"], "--input: requires --key COLUMN"),
        (["--input", "{rows}", "--key", "letter", "--target", "1"], "--target: '1' has no unit"),
        (["--input", "{rows}", "--key", "letter", "--target", "0 s"], "--target: '0 s' is too short"),
        (
            ["--input", "{rows}", "--key", "letter", "--duration", "1 s"],
            "'1 s' is too short; it must be 10 s",
        ),
        (["--input", "{rows}", "--key", "letter", "--seed", "-1"], "--seed: -1 is negative"),
        (
            ["--input", "{rows}", "--key", "letter", "--out", "{rows}"],
            "rows.csv: cannot create this folder",
        ),
    ],
)
def test_a_mistake_is_one_line_and_status_2(rows, tmp_path, capsys, arguments, message):
    chosen = ["--out", str(tmp_path / "out")] if "--out" not in arguments else []

    assert (
        main(["demo", *[argument.format(rows=rows) for argument in arguments], *chosen])
        == exit_status.MISTAKE
    )

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_missing_flights_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(flights, "PACKAGE", "no_such_package")

    assert main(["demo", "--out", str(tmp_path)]) == exit_status.MISTAKE

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "is not installed" in err


def demo_process(rows, folder, **environment):
    arguments = ["--input", rows, "--key", "letter", "--out", folder / "out", "--duration", "100000 s"]
    return subprocess.Popen(
        [sys.executable, "-m", "integration", "demo", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def test_no_java_is_one_line(rows, tmp_path):
    with demo_process(rows, tmp_path, JAVA_HOME=str(tmp_path)) as process:
        out, err = process.communicate()

    assert (process.returncode, out, err.count("\n")) == (exit_status.MISTAKE, "", 1)
    assert "Spark needs Java" in err


@pytest.mark.spark
@pytest.mark.long
def test_ctrl_c_ends_it_with_one_line_and_leaves_no_files(rows, tmp_path):
    with demo_process(rows, tmp_path) as process:
        assert process.stderr.readline().startswith("starting Spark: ")
        assert process.stderr.readline().startswith("reading rows.csv: ")
        assert list(tmp_path.glob("netstack-spool-*"))
        out, err = ended_by(process, group=True)

    assert (process.returncode, out) == (130, "")
    assert [line for line in err.splitlines() if not line.startswith(OFF)] == ["netstack: stopped"]
    assert list(tmp_path.glob("netstack-spool-*")) == []


def test_texts_of_the_data_are_no_markup(capsys):
    results = sample_results()
    facts = [("Key", "most have [bold]"), *job_facts(results["debloating off"])]

    print_demo(facts, results, "It [red]did not[/red] help.", to_stdout())

    out = capsys.readouterr().out
    assert "most have [bold]" in out
    assert "It [red]did not[/red] help." in out
