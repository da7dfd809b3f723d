import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration import load_scenario, open_sources
from integration.cli.app import main
from integration.cli.exit_status import MISTAKE
from netstack import (
    InputError,
    SourceError,
    emulate,
    from_json,
    to_json,
)

pytestmark = pytest.mark.spark

SCENARIO = """\
duration = "4 s"

[[vertices]]
name = "rows"
source = { path = "rows.csv", key = "k", rate = 100, repeat = true }

[[vertices]]
name = "stage1"
parallelism = 2
service = "1 ms"

[[edges]]
from = "rows"
to = "stage1"
ship = "hash"
"""


@pytest.fixture
def scenario(tmp_path: Path, spark: SparkSession) -> Path:
    (tmp_path / "rows.csv").write_text("k,v\n" + "".join(f"{number % 5},{number}\n" for number in range(50)))
    path = tmp_path / "rows.toml"
    path.write_text(SCENARIO)
    return path


def test_a_path_runs_with_a_subtask_for_each_partition(scenario: Path) -> None:
    loaded = load_scenario(scenario)
    with open_sources(loaded) as ready:
        assert ready.vertices[0].parallelism == 1
        result = emulate(ready)
    assert result.steady[0].vertices[0].records_out_per_s == [pytest.approx(100, rel=0.05)]
    assert result.scenario.vertices[0].source == loaded.vertices[0].source  # and nothing that was opened
    assert from_json(to_json(result)).scenario == result.scenario


def test_a_path_may_be_repartitioned(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("source =", "parallelism = 3\nsource ="))
    with open_sources(load_scenario(scenario)) as ready:
        assert ready.vertices[0].parallelism == 3


def test_a_scenario_that_does_not_fit_the_partitions_is_refused(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace('"hash"', '"forward"'))
    loaded = load_scenario(scenario)
    with pytest.raises(InputError, match="not 1 and 2"), open_sources(loaded):
        pass


def test_a_missing_column_is_refused(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace('key = "k"', 'key = "q"'))
    loaded = load_scenario(scenario)
    with pytest.raises(SourceError, match=r"vertices\.\w+\.source: .*q"), open_sources(loaded):
        pass


def test_the_command_line_runs_and_compares_paths(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(scenario), "--json"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out)
    assert document["work"]["records"] > 300
    reference = scenario.parent / "reference.json"
    reference.write_text(out)
    assert main(["compare", str(scenario), str(reference), "--seeds", "2"]) == 0


def test_a_missing_file_is_one_line(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scenario.parent / "rows.csv").unlink()
    assert main(["run", str(scenario)]) == MISTAKE
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "rows.csv" in err
