"""What commands write where nobody looks on: the result alone, and no spaces at the ends of lines.

Each command of the command line has a case here, or a test that names it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.cli.app import app, main
from tests.integration.advise.tune.changed_job import write_change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
JOB = str(ROOT / "tests/data/flink-reference/2x2_200KBs_on1s.toml")
MEASURED = str(ROOT / "tests/data/flink-reference/2x2_200KBs_on1s.json")
RECORDED = str(ROOT / "docs/examples/wordcount_off.rest.json.gz")
PROGRESS = ("\x1b", "\r", " left", " so far", "watching", "━", "wrote ")
"""Texts that belong on stderr, or on a terminal."""

SMALL = """
duration = "6 s"
warmup = "2 s"
[flink]
"execution.checkpointing.interval" = "1 s"
{kept}
[[vertices]]
name = "source"
source = {{ record_bytes = 1000, rate = 100 }}
[[vertices]]
name = "sum"
service = "20 ms"
[[edges]]
from = "source"
to = "sum"
"""

TEXTS = {
    "run": ["run", "SMALL"],
    "size": ["size", "SMALL"],
    "size of numbers": ["size", "--throughput", "10 MB/s"],
    "size, checked": ["size", "SMALL", "--check", "--seeds", "1"],
    "diagnose": ["diagnose", "RESULT"],
    "compare with Flink": ["compare", "RESULT", MEASURED],
    "compare two": ["compare", "RESULT", "RESULT"],
    "import": ["import-flink", RECORDED],
    "validate": ["validate", "--from-flink", RECORDED, "--seeds", "1"],
    "forecast": ["forecast", "SMALL"],
    "verify": ["verify", "PACKAGE", "--from-flink", "CHANGED"],
    "lint": ["lint", "OPTIONS"],
    "checkpoints": ["checkpoints", "KEPT", "--verify"],
    "state": ["state", "KEPT"],
    "schema": ["schema"],
    "help": ["--help"],
    "help, short": ["-h"],
    "help of a command": ["run", "--help"],
    "version": ["--version"],
}
"""Cases by the name of the command, and what is particular to them; in capitals what the tests make."""

ON_SPARK = {
    "tune": ["tune", "SMALL", "--target", "1s", "--seeds", "1"],
    "shuffle": ["shuffle", "--input", "ROWS", "--key", "key", "--partitions", "2", "--output", "SHUFFLED"],
    "demo": ["demo", "--input", "ROWS", "--key", "key", "--duration", "10 s", "--out", "DEMO"],
}

OF_THEIR_OWN = {
    "package": "prints nothing: below",
    "lab": "goes on until it is stopped: below",
    "--install-completion": "writes to a home directory: test_completion",
}

WITHOUT_JSON = {"help", "help, short", "help of a command", "version", "schema"}
"""Cases that are no documents, or nothing else."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands for the words in capitals."""
    folder = tmp_path_factory.mktemp("piped")
    made = {name: str(folder / name.lower()) for name in ("KEPT", "OPTIONS", "DEMO", "SHUFFLED")}
    made |= {"SMALL": str(folder / "small.toml"), "ROWS": str(folder / "rows.parquet")}
    made["RESULT"] = str(folder / "result/2x2_200KBs_on1s.json")
    made["OPTIONS"] += ".yaml"
    Path(made["SMALL"]).write_text(SMALL.format(kept=""), "utf-8")
    keeps = folder / "keeps.toml"
    keeps.write_text(SMALL.format(kept=f'"execution.checkpointing.dir" = "{made["KEPT"]}"'), "utf-8")
    Path(made["OPTIONS"]).write_text("taskmanager.network.memory.buffer-debloat.enable: true\n", "utf-8")
    made |= {"PACKAGE": str(folder / "change.json"), "CHANGED": str(folder / "changed.json")}
    write_change(Path(made["PACKAGE"]), Path(made["CHANGED"]))
    parquet.write_table(pa.table({"key": [f"k{n % 7}" for n in range(200)], "n": range(200)}), made["ROWS"])
    assert main(["run", JOB, "--out", str(folder / "result")]) == 0
    assert main(["run", str(keeps)]) == 0
    return made


def printed(arguments: list[str], files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    given = [files.get(argument, argument) for argument in arguments]
    capsys.readouterr()
    assert main(given) in (0, 1)
    return capsys.readouterr().out


def require_result_alone(text: str) -> None:
    """Check what is written of one command; it is more than nothing."""
    lines = text.splitlines()
    assert lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert [word for word in PROGRESS if word in text] == []
    assert text.endswith("\n")
    assert not text.startswith("\n")


def require_document(text: str) -> None:
    """Check that a text is a document on one line."""
    assert isinstance(json.loads(text), dict | list)
    assert text.count("\n") == 1


def test_each_command_has_a_case() -> None:
    cases = {arguments[0] for arguments in [*TEXTS.values(), *ON_SPARK.values()]}
    assert set(app) - OF_THEIR_OWN.keys() == cases


def test_each_command_that_prints_documents_has_a_case_of_one() -> None:
    parsed = {name: app[name].assemble_argument_collection() for name in app if not name.startswith("-")}
    printing = {name for name, options in parsed.items() if any("--json" in each.names for each in options)}
    cases = {**TEXTS, **ON_SPARK}
    assert {cases[case][0] for case in cases if case not in WITHOUT_JSON} == printing


@pytest.mark.parametrize("command", TEXTS)
def test_a_text_is_the_result_and_nothing_else(
    command: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    require_result_alone(printed(TEXTS[command], files, capsys))


@pytest.mark.parametrize("command", sorted(set(TEXTS) - WITHOUT_JSON))
def test_a_document_is_one_line_of_json(
    command: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    require_document(printed([*TEXTS[command], "--json"], files, capsys))


@pytest.mark.spark
@pytest.mark.parametrize("command", ON_SPARK)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "document"])
@pytest.mark.long
def test_what_runs_on_spark_writes_its_result_alone(
    command: str,
    as_json: bool,
    spark: SparkSession,
    files: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {**files, "SHUFFLED": str(tmp_path / "rows.parquet"), "DEMO": str(tmp_path / "demo")}
    text = printed([*ON_SPARK[command], *(["--json"] if as_json else [])], places, capsys)
    (require_document if as_json else require_result_alone)(text)


def test_package_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["package", str(tmp_path / "code.zip")], {}, capsys) == ""


def test_lab_prints_its_address() -> None:
    command = [sys.executable, "-m", "integration", "lab", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as lab:
        assert lab.stdout is not None
        first = lab.stdout.readline()
        lab.terminate()
        rest = lab.stdout.read()
    require_result_alone(first)
    assert first.startswith("http://127.0.0.1:")
    assert rest == ""
