"""Whether files have the columns of some names, told without Spark."""

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.spark.data_files import require_columns
from integration.spark.job_on_spark import FedSource
from integration.spark.sources import SparkSource
from netstack import SourceError


def parquet_file(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({name: [1] for name in names}), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet_file(tmp_path / "one.parquet", "a", "B.c")
    parquet_file(tmp_path / "several" / "x.parquet", "a")
    parquet_file(tmp_path / "several" / "y.parquet", "a", "b")
    parquet_file(tmp_path / "several" / "_ignored.parquet", "z")
    parquet_file(tmp_path / "by_day" / "day=1" / "x.parquet", "a")
    (tmp_path / "rows.csv").write_bytes(b'\xef\xbb\xbf\n"a, b",c\n1,2\n')
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a,c\n1,2\n"))
    (tmp_path / "rows.csv.bz2").write_bytes(bz2.compress(b"a,c\n1,2\n"))
    (tmp_path / "twice.csv").write_text("a,A\n1,2\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "rows.json").write_text('{"a": 1}\n')
    (tmp_path / "broken.parquet").write_text("no parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "name", "columns"),
    [
        ("one.parquet", "c", "a, B.c"),
        ("one.parquet", "b.c", "a, B.c"),
        ("several", "z", "a, b"),
        ("by_day", "month", "day, a"),
        ("rows.csv", "a", "a, b, c"),
        ("rows.csv.gz", "b", "a, c"),
        ("rows.csv.bz2", "b", "a, c"),
    ],
)
def test_a_column_that_is_not_there(folder: Path, path: str, name: str, columns: str) -> None:
    with pytest.raises(SourceError) as caught:
        require_columns(folder / path, [name])
    assert str(caught.value) == (
        f"{folder / path}: there is no key column {name!r}; the columns are: {columns}"
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("one.parquet", "B.c"),
        ("several", "b"),
        ("by_day", "day"),
        ("rows.csv", "a, b"),
        ("rows.csv.gz", "c"),
        *((unknown, "nosuch") for unknown in ("twice.csv", "empty.csv", "rows.json", "broken.parquet")),
    ],
)
def test_a_column_that_is_there_or_of_which_only_spark_can_tell(folder: Path, path: str, name: str) -> None:
    require_columns(folder / path, [name])


@pytest.mark.parametrize("name", ["A", "b.c", "`B.c`", "s.field"])
def test_spark_finds_names_in_any_case_and_fields_of_structs(folder: Path, name: str) -> None:
    require_columns(folder / "one.parquet", [name], as_spark=True)


@pytest.mark.parametrize(
    "given", [{"options": {"sep": ";"}}, {"format": "json"}], ids=["another separator", "JSON"]
)
def test_what_is_read_otherwise_is_for_spark_to_tell(folder: Path, given: dict[str, Any]) -> None:
    require_columns(folder / "rows.csv", ["nosuch"], **given)
    require_columns("hdfs://nowhere/rows.csv", ["nosuch"])


def test_a_source_says_so_before_spark_starts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.spark.sources.spark_session", None)
    source = SparkSource(folder / "one.parquet", "nosuch")
    with pytest.raises(SourceError, match="there is no key column 'nosuch'"):
        source.prepare()


@pytest.mark.parametrize("on_spark", [False, True])
def test_what_was_cut_otherwise_cannot_be_read_on(folder: Path, on_spark: bool) -> None:
    """In other partitions there are other rows, so how many of one were read says nothing."""
    fed = FedSource(vertex=0, partitions=2, schema=pa.schema([]), key=(), repeat=False)
    source = fed if on_spark else SparkSource(folder / "one.parquet", parallelism=2)
    with pytest.raises(SourceError) as refused:
        source.open_split(0, 3)
    assert str(refused.value) == (
        "its rows were in 3 parts when the checkpoint was taken, but Spark now splits them into 2; give "
        "it the parallelism 3"
    )
