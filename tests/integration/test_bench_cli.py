"""``netstack bench``: what is printed and written, kept and compared, and refused."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from integration.benchmarks.bench_case import Effort
from integration.benchmarks.bench_results import (
    BenchmarkRun,
    MachineInfo,
    PointResult,
    Software,
    as_csv,
    this_machine,
)
from integration.benchmarks.catalogue_of_cases import chosen_points
from integration.benchmarks.forks import transport_name
from integration.benchmarks.intervals import Verdict
from integration.benchmarks.saved_runs import changes, load_run, require_comparable
from integration.cli.app import main
from integration.report.benchmark_chart import charts_of
from integration.report.benchmark_text import markdown, number
from netstack import ScenarioError

pytestmark = pytest.mark.long

QUICK = ["bench", "networkLatency1to1", "--way", "emulated"]
PNG = b"\x89PNG\r\n\x1a\n"
MACHINE = MachineInfo(system="Linux", architecture="x86_64", processor="a processor", cores=2)


def result(*scores: float, parameter: str = "add_credit", **settings: object) -> PointResult:
    fields: dict[str, object] = {
        "case": "frameSize",
        "parameter": parameter,
        "way": "process",
        "transport": "",
        "mode": "avgt",
        "unit": "us/op",
        "warmups": 1,
        "scale": 1.0,
        "scores": [list(scores)],
        "yardstick": "memory copy",
        "yardstick_scores": [[2.0] * len(scores)],
    }
    return PointResult(**(fields | settings))  # type: ignore[arg-type]


def run_of(*results: PointResult, machine: MachineInfo = MACHINE) -> BenchmarkRun:
    software = Software(python="3.11", core="plain Python")
    return BenchmarkRun(command="netstack bench", machine=machine, software=software, results=list(results))


def keep(run: BenchmarkRun, folder: Path, name: str = "before") -> Path:
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.encode(run))
    return path


def test_a_run_is_printed_written_kept_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--csv", str(tmp_path / "a.csv")]
    store = ["--store", str(tmp_path / "store")]
    plot = ["--plot", str(tmp_path / "plots")]
    assert main([*QUICK, *files, *plot, *store, "--save", "before"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("networkLatency1to1 (avgt, ms/op)\n")
    run = load_run("before", tmp_path / "store", "--against")
    assert [(point.name, len(point.scores), len(point.scores[0])) for point in run.results] == [
        ("networkLatency1to1 emulated", 1, 20)
    ]
    assert (tmp_path / "a.csv").read_bytes() == as_csv(run)
    assert (tmp_path / "plots/networkLatency1to1.png").read_bytes().startswith(PNG)
    kept = tmp_path / "store/before.json"
    for factor, status, said in ((1000, 0, "0 of 1 worse"), (0.001, 1, "1 of 1 worse")):
        scores = [[score * factor for score in fork] for fork in run.results[0].scores]
        changed = msgspec.structs.replace(run.results[0], scores=scores)
        kept.write_bytes(msgspec.json.encode(msgspec.structs.replace(run, results=[changed])))
        assert main([*QUICK, *store, "--against", "before"]) == status
        assert said in capsys.readouterr().out


def test_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--repetitions", "2", "--json"]) == 0
    captured = capsys.readouterr()
    (point,) = msgspec.json.decode(captured.out, type=BenchmarkRun).results
    assert (point.name, len(point.scores[0])) == ("networkLatency1to1 emulated", 2)
    assert "networkLatency1to1 (avgt, ms/op)\n" in captured.err


def test_a_line_of_the_csv_is_a_point() -> None:
    document = as_csv(run_of(result(1.0, 3.0), result(4.0, yardstick_scores=[])))
    rows = list(csv.DictReader(document.decode().splitlines()))
    assert [(row["score"], row["least"], row["greatest"], row["ratio"]) for row in rows] == [
        ("2.0", "1.0", "3.0", "1.0"),
        ("4.0", "4.0", "4.0", ""),
    ]
    assert rows[1]["error"] == ""


def test_markdown_has_the_spread_and_the_ratio() -> None:
    last = markdown(run_of(result(1.0, 1.0, 1.0))).splitlines()[-1]
    assert (
        last
        == "| frameSize | add_credit | process | 1.000 ± 0.000 | 1.000 – 1.000 | us/op | 0.5000 memory copy |"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (123.456, "123.5"), (0.123456, "0.1235"), (1000, "1,000")]
)
def test_scores_have_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_picture_has_a_place_for_each_parameter() -> None:
    (chart,) = charts_of(run_of(result(1.0, 2.0), result(3.0, parameter="response_32k")))
    (rows,) = chart.spec["datasets"].values()
    assert [row["place"] for row in rows] == ["add_credit", "response_32k"]
    assert rows[1]["low"] == rows[1]["mean"] == rows[1]["high"] == 3.0


def test_a_picture_has_a_unit_on_its_axis_and_the_ways_that_it_shows() -> None:
    (chart,) = charts_of(run_of(result(1.0, 2.0)))
    (bars, _) = chart.spec["layer"]
    assert bars["encoding"]["x"]["title"] == "time (µs/op)"
    assert bars["encoding"]["color"]["scale"] == {"domain": ["process"], "range": ["#e69f00"]}
    assert chart.title == "frameSize: µs/op, less is better"


def test_changes_set_each_result_beside_its_like() -> None:
    before = run_of(result(10.0, 10.0), result(1.0, 1.0, parameter="response_32k"))
    now = run_of(result(1.0, 1.0, parameter="response_32k"), result(20.0, 20.0))
    compared = changes(before, now, 5.0)
    assert [(change.now.parameter, change.verdict, change.percent) for change in compared] == [
        ("response_32k", Verdict.SAME, 0.0),
        ("add_credit", Verdict.WORSE, 100.0),
    ]
    assert compared[0].yardstick_percent == 0.0


def refused(saved: BenchmarkRun, effort: Effort, machine: MachineInfo = MACHINE) -> str:
    (point,) = chosen_points(["frameSize"], ["add_credit"])
    with pytest.raises(ScenarioError) as raised:
        require_comparable(saved, "before", machine, [(point, effort, transport_name(point, None))])
    (problem,) = raised.value.problems
    return problem


def test_runs_of_other_machines_or_other_iterations_are_not_compared() -> None:
    effort = Effort(warmups=1)
    other = MachineInfo(system="Linux", architecture="arm64", processor="another", cores=8)
    assert refused(run_of(result(1.0)), effort, other) == (
        "netstack bench: --against before: was run on a processor, 2 cores, Linux x86_64; this is another, "
        "8 cores, Linux arm64: run both on one machine"
    )
    assert refused(run_of(result(1.0, parameter="response_32k")), effort) == (
        "netstack bench: --against before: has no frameSize add_credit process; name the cases that it has, "
        "or save a run with it"
    )
    assert refused(run_of(result(1.0)), Effort(warmups=1, scale=0.5)) == (
        "netstack bench: --against before: frameSize add_credit process was run with --scale 1 --warmups 1, "
        "and now with --scale 0.5 --warmups 1; give the same"
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"", "Input data was truncated"),
        (b'{"format": "', "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (msgspec.json.encode(run_of(result(1.0)))[:-40], "Input data was truncated"),
        (
            msgspec.json.encode(msgspec.structs.replace(run_of(), format="other")),
            "its format is 'other'; it must be 'netstack-bench-1'",
        ),
        (msgspec.json.encode(run_of(result())), "frameSize add_credit process: it has no scores"),
        (
            msgspec.json.encode(run_of(result(0.0))),
            "frameSize add_credit process: a score is no positive number",
        ),
        (
            msgspec.json.encode(run_of(result(1.0, unit="s"))),
            "frameSize add_credit process: there is no unit 's' of mode 'avgt'",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_a_line(tmp_path: Path, document: bytes, problem: str) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(document)
    with pytest.raises(ScenarioError) as raised:
        load_run("before", tmp_path, "--against")
    (line,) = raised.value.problems
    assert line == f"{path}: is no saved benchmark: {problem}; save it anew with --save before"


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    run = run_of(result(1.0, 2.0))
    keep(run, tmp_path)
    assert load_run("before", tmp_path, "--against") == run


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "there is no case 'nothing'; use one of"),
        (["frameSize", "--repetitions", "0"], "--repetitions is 0; at least 1 is needed"),
        (["frameSize", "--forks", "0"], "--forks is 0; at least 1 is needed"),
        (["frameSize", "--warmups=-1"], "--warmups is -1; it must be 0 or more"),
        (["frameSize", "--scale", "0"], "--scale is 0; it must be more than 0"),
        (["frameSize", "--threshold", "nan"], "--threshold is nan; it must be 0 or more"),
        (["frameSize", "--save", "../x"], "--save is '../x'; a name has up to 100 letters"),
        (["frameSize", "--against", "none"], "--against is 'none', and"),
        (["networkLatency1to1", "--transport", "x"], "--transport is 'x'; it must be MODULE:CLASS"),
        (["networkLatency1to1", "--transport", "no.such:T"], "no.such cannot be imported: No module"),
        (["networkLatency1to1", "--transport", "os:path"], "path must be a class that inherits from"),
        (
            ["frameSize", "--transport", "integration:PlainSockets"],
            "--transport is 'integration:PlainSockets'; PlainSockets must be a class",
        ),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments, "--store", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (said,) = captured.err.splitlines()
    assert said.startswith("netstack bench: ")
    assert line in said


def test_the_list_has_cases_parameters_ways_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "networkThroughput", "creditRoundTrip"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "networkThroughput (thrpt, ops/ms)" in out
    assert "1000,100ms,SSL ways: emulated, process, tcp" in out
    assert "not emulated with 100,1ms,SSL; 100,100ms,SSL;" in out
    assert "not tcp: is work within one process" in out


def test_this_machine_has_a_processor_and_cores() -> None:
    assert this_machine().processor
    assert this_machine().cores >= 1


def test_ctrl_c_ends_a_run_with_one_line(tmp_path: Path) -> None:
    """The fork presses it when it has come as far as to listen."""
    (tmp_path / "pressing.py").write_text(
        "import os, signal\n"
        "from integration.benchmarks import plain_sockets\n"
        "class Pressing(plain_sockets.PlainSockets):\n"
        "    async def listen(self):\n"
        "        os.kill(os.getppid(), signal.SIGINT)\n"
        "        return await super().listen()\n"
    )
    command = [sys.executable, "-m", "integration", "bench", "networkLatency1to1", "--way", "process"]
    ended = subprocess.run(
        [*command, "--transport", "pressing:Pressing", "--repetitions", "1000000"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "netstack: stopped\n")
