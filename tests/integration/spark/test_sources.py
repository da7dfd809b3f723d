from __future__ import annotations

import datetime as dt
import json
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from integration import load_scenario, open_sources
from integration.base.errors import UnsupportedColumnError
from integration.cli.app import main
from integration.cli.exit_status import MISTAKE
from integration.spark import spark_session
from integration.spark.rows import RowCodec, key_hash
from integration.spark.sources import SparkSource
from netstack import (
    InputError,
    Source,
    SourceError,
    SourceReader,
    emulate,
    from_json,
    java_hash,
    to_json,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc  # noqa: UP017


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for spools, which has to be empty again after each test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def rows_of(source: SparkSource, reader: SourceReader, at_once: int = 20) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while (block := reader.read(at_once)) is not None:
        assert 1 <= len(block) <= at_once
        rows += source.codec.rows(block)
    assert reader.read(at_once) is None
    reader.close()
    return rows


def all_rows(source: SparkSource, parallelism: int | None = None) -> list[list[tuple[Any, ...]]]:
    count = parallelism or source.parallelism_hint
    return [rows_of(source, source.open(subtask, count)) for subtask in range(count)]


def problem_of(data: str | Path | DataFrame, key: str | None = None, **options: Any) -> str:
    with pytest.raises(SourceError) as raised, SparkSource(data, key, **options) as source:
        source.prepare()
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_more_partitions_than_slots(spark: SparkSession, temporary: Path) -> None:
    assert spark.sparkContext.defaultParallelism == 4
    with SparkSource(spark.range(100, numPartitions=8), "id") as source:
        checked: Source = source
        assert checked.parallelism_hint == 8
        rows = all_rows(source)
        assert [len(part) for part in rows] == [12, 13, 12, 13, 12, 13, 12, 13]
        assert [row for part in rows for row in part] == [(number,) for number in range(100)]
        assert [len(part) for part in all_rows(source, 3)] == [37, 38, 25]
        (folder,) = temporary.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.iterdir())) == 8


def test_fewer_partitions_than_subtasks_and_empty_partitions(spark: SparkSession) -> None:
    with SparkSource(spark.range(3, numPartitions=5), "id") as source:
        assert [len(part) for part in all_rows(source, 7)] == [0, 1, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(("parallelism", "hint"), [(None, 1), (3, 3)])
def test_an_empty_data_set(spark: SparkSession, parallelism: int | None, hint: int) -> None:
    with SparkSource(spark.range(0), "id", parallelism=parallelism, repeat=True) as source:
        assert source.parallelism_hint == hint
        assert all_rows(source) == [[]] * hint
        assert source.codec.schema.names == ["id"]


def test_repartitioning_is_reproducible(spark: SparkSession) -> None:
    frame = spark.range(1000, numPartitions=2).selectExpr("id", "cast(id % 7 as string) as name")
    contents = []
    for _ in range(2):
        with SparkSource(frame, "name", parallelism=4) as source:
            assert source.parallelism_hint == 4
            contents.append(all_rows(source))
    assert contents[0] == contents[1]
    assert [len(part) for part in contents[0]] == [250] * 4
    assert sorted(row for part in contents[0] for row in part) == [(i, str(i % 7)) for i in range(1000)]


def test_repeating(spark: SparkSession) -> None:
    with SparkSource(spark.range(5, numPartitions=2), repeat=True) as source:
        reader = source.open(0, 1)
        blocks = [reader.read(4) for _ in range(8)]
        rows = [row for block in blocks if block is not None for row in source.codec.rows(block)]
        reader.close()
        assert rows[:12] == [(number % 5,) for number in range(12)]


def test_all_types_survive(spark: SparkSession) -> None:
    frame = spark.sql("""
        select * from values
            ('Zürich €😀', 1.50BD, date'2020-02-29', timestamp'2020-07-01 12:00:00.000001 Europe/Paris',
             timestamp_ntz'2020-07-01 12:00:00.000001', true, X'00FF', double('NaN'), 1Y,
             9223372036854775807L, array(1, null), map('k', array(date'2020-01-01')),
             struct(1.5f as x, struct('in' as y) as z), interval '1' day),
            (null, null, null, null, null, null, null, null, null, null, null, null, null, null)
        as t(s, d, day, zoned, naive, b, raw, x, tiny, big, list, m, st, gap)
    """)
    with SparkSource(frame.coalesce(1), "s") as source:
        ((full, empty),) = all_rows(source)
        block = source.open(0, 1).read(2)
        assert block is not None
        assert key_hash(block).tolist() == [java_hash.hash_strings(["Zürich €😀"])[0], 0]
    assert empty == (None,) * 14
    assert full[7] != full[7]
    assert full[:7] + full[8:] == (
        "Zürich €😀",
        Decimal("1.50"),
        dt.date(2020, 2, 29),
        dt.datetime(2020, 7, 1, 10, 0, 0, 1, tzinfo=UTC),
        dt.datetime(2020, 7, 1, 12, 0, 0, 1),
        True,
        b"\x00\xff",
        1,
        2**63 - 1,
        [1, None],
        [("k", [dt.date(2020, 1, 1)])],
        {"x": 1.5, "z": {"y": "in"}},
        dt.timedelta(days=1),
    )


def write(file: Path) -> None:
    """Write the rows (1, a), (2, null), (3, c) in the format of the file's extension."""
    if file.suffix == ".parquet":
        parquet.write_table(pa.table({"number": [1, 2, 3], "name": ["a", None, "c"]}), file)
    elif file.suffix == ".csv":
        file.write_text("number,name\n1,a\n2,\n3,c\n")
    else:
        file.write_text('{"number": 1, "name": "a"}\n{"number": 2}\n{"number": 3, "name": "c"}\n')


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_files_and_folders(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "a folder [1] of *.files"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    file = folder / f"data.{suffix}"
    write(file)
    for path in (folder, str(file)):
        with SparkSource(path, "name") as source:
            columns = source.codec.schema.names
            found = [dict(zip(columns, row, strict=True)) for part in all_rows(source) for row in part]
        assert found == [{"number": 1, "name": "a"}, {"number": 2, "name": None}, {"number": 3, "name": "c"}]


def test_options_of_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("a;b\n1;NA\n2;3\n")
    with SparkSource(file, format="csv", options={"sep": ";", "nullValue": "NA"}) as source:
        assert all_rows(source) == [[(1, None), (2, 3)]]


def test_files_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    for name, content, columns in (("a.csv", "", []), ("b.csv", "x,y\n", ["x", "y"]), ("c.json", "", [])):
        (tmp_path / name).write_text(content)
        with SparkSource(tmp_path / name) as source:
            assert all_rows(source) == [[]]
            assert source.codec.schema.names == columns


def test_mistakes_in_the_path(spark: SparkSession, tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    assert problem_of(missing) == f"{missing}: no such file or folder"
    for name in ("a.csv", "b.json", "c.txt", "broken.parquet", "_hidden.parquet"):
        (tmp_path / name).write_text("x\n1\n")
    assert problem_of(tmp_path / "c.txt") == (
        f"{tmp_path / 'c.txt'}: its extension does not show the format (known ones are "
        ".parquet, .pq, .csv, .json, .jsonl, .ndjson); name it with `format`"
    )
    assert (
        problem_of(tmp_path)
        == f"{tmp_path}: the folder contains files of several formats; name one with `format`"
    )
    problem = problem_of(tmp_path / "broken.parquet")
    assert problem.startswith(f"{tmp_path / 'broken.parquet'}: [FAILED_READ_FILE")


def test_json_without_an_object_on_a_line_and_a_folder_without_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    pretty, folder = tmp_path / "pretty.json", tmp_path / "folder"
    pretty.write_text('[\n  {\n    "k": 1\n  }\n]\n')
    folder.mkdir()
    assert problem_of(pretty, "k") == (
        f"{pretty}: none of its lines is a JSON object; each row must be one object, on one line"
    )
    assert problem_of(folder) == f"{folder}: the folder contains no data"


def test_column_names_may_hold_anything_and_repeat(spark: SparkSession) -> None:
    frame = spark.range(3).toDF("a").selectExpr("a", "a + 1 as b", "a as c", "a as d", "a as e")
    frame = frame.toDF("Sepal.Length", "k", "K", "back`tick x", "Sepal.Length")
    with SparkSource(frame, "k", parallelism=1) as source:
        assert source.codec.schema.names == frame.columns
        assert sorted(all_rows(source)[0]) == [(n, n + 1, n, n, n) for n in range(3)]
    with SparkSource(frame, "back`tick x") as source:
        source.prepare()
    assert "exists 2 times" in problem_of(frame, "Sepal.Length")


def test_mistakes_in_the_columns(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "id as name")
    assert problem_of(frame, "nam") == "there is no key column 'nam'; the columns are: id, name"
    assert problem_of(spark.sql("select 1 as a, interval '1' month as `b c`")) == (
        "column 'b c': type interval month cannot be sent in a record"
    )
    with pytest.raises(UnsupportedColumnError, match=r"column 'a': type list<.*> cannot be a key"):
        SparkSource(spark.sql("select array(1) as a"), "a").prepare()


def test_a_task_that_fails(spark: SparkSession) -> None:
    frame = spark.range(4, numPartitions=2).selectExpr("if(id < 3, id, raise_error('no more')) as id")
    assert problem_of(frame) == "[USER_RAISED_EXCEPTION] no more"


def test_ctrl_c_cancels_the_job_and_deletes_the_files(spark: SparkSession, temporary: Path) -> None:
    long = spark.range(10**9, numPartitions=1)
    interrupter = threading.Thread(target=_interrupt_when_writing, args=(temporary,))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt), SparkSource(long) as source:
        source.prepare()
    interrupter.join()
    assert spark.range(3).count() == 3  # the only slot is free again


def _interrupt_when_writing(folder: Path) -> None:
    pause = threading.Event()
    while not any(file.stat().st_size for file in folder.glob("*/*")):
        pause.wait(0.005)
    os.kill(os.getpid(), signal.SIGINT)


def test_hash_codes_are_those_of_java(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    frame = spark.sql("""
        select * from values
            ('Zürich €😀', -1.25BD, 1e-3D, 1.1F, -9223372036854775807L, false, X'80FF', date'1969-01-01',
             timestamp'1969-01-01 00:00:00.000001 UTC')
        as t(s, d, x, f, l, b, raw, day, stamp)
    """)
    hash_code = jvm.java.util.Objects.hashCode
    expected = {
        "s": hash_code("Zürich €😀"),
        "d": hash_code(jvm.java.math.BigDecimal("-1.25")),
        "x": hash_code(1e-3),
        "f": jvm.java.lang.Float.floatToIntBits(1.1),
        "l": hash_code(-(2**63) + 1),
        "b": hash_code(False),
        "raw": jvm.java.util.Arrays.hashCode(b"\x80\xff"),
        "day": hash_code(-365),
        "stamp": hash_code(-365 * 86_400_000_000 + 1),
    }
    with SparkSource(frame.coalesce(1)) as source:
        block = source.open(0, 1).read(1)
        assert block is not None
        batch = source.codec.decode(block)
    found = {name: int(key_hash(RowCodec(batch.schema, name).encode(batch))[0]) for name in expected}
    assert found == expected


def test_the_active_session_is_used_and_left_running(spark: SparkSession) -> None:
    assert spark_session("local[7]") is spark
    with SparkSource(spark.range(1)) as source:
        source.prepare()
    assert spark.range(2).count() == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_arguments() -> None:
    with pytest.raises(ValueError, match="parallelism is 0; it must be at least 1"):
        SparkSource("a.csv", parallelism=0)
    with pytest.raises(ValueError, match="format is 'orc', which is not one of"):
        SparkSource("a.csv", format="orc")


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
