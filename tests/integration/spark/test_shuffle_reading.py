"""Files, cut by Spark into as many partitions as a shuffle of them has."""

import gzip

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from integration.spark.shuffling.partitions import read_in_partitions

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    table = pa.table({"number": range(5000)})
    csv.write_csv(table, folder / "one.csv")
    parquet.write_table(table, folder / "one.parquet")
    with gzip.open(folder / "one.csv.gz", "wt") as packed:
        packed.write("number\n1\n")
    (folder / "many").mkdir()
    for name in range(9):
        csv.write_csv(table.slice(0, 100 + 450 * name), folder / "many" / f"{name}.csv")
    return folder


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("name", ["one.csv", "one.parquet", "many"])
def test_files_are_cut_into_just_as_many_partitions(spark, files, name, count):
    frame = read_in_partitions(spark, str(files / name), count)
    assert frame.rdd.getNumPartitions() == count


def test_the_session_stays_as_it_is(spark, files):
    before = spark.conf.getAll
    read_in_partitions(spark, str(files / "many"), 7)
    assert spark.conf.getAll == before


def test_no_row_is_lost_where_files_are_cut(spark, files):
    frame = read_in_partitions(spark, str(files / "one.csv"), 7)
    assert sorted(row["number"] for row in frame.collect()) == list(range(5000))


def test_a_file_that_cannot_be_cut_stays_whole(spark, files):
    frame = read_in_partitions(spark, str(files / "one.csv.gz"), 4)
    assert frame.rdd.getNumPartitions() == 1
