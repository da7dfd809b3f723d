"""The code in the documents that needs Spark runs as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.code_in_documents import ROOT, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader works."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def flights(spark: SparkSession, folder: Path) -> int:
    """The number of rows in flights.parquet, of five carriers."""
    rows = spark.range(1000).selectExpr("id", "concat('carrier ', id % 5) as carrier")
    rows.write.parquet(str(folder / "flights.parquet"))
    return 1000


def test_the_shuffle_of_the_page_writes_and_counts_all_rows(
    spark: SparkSession, flights: int, folder: Path
) -> None:
    files = {name: folder / name for name in ("flights.parquet", "by-carrier")}  # Java has another folder
    *_, (shown, _) = run(ROOT / "docs/SHUFFLE.md", {"spark": spark}, files)
    assert spark.read.parquet(str(folder / "by-carrier")).count() == flights
    assert "credit_stalls" in shown


def test_the_state_of_the_tutorials_checkpoint_is_read_as_the_page_says(spark: SparkSession) -> None:
    run(ROOT / "docs/PYTHON_JOBS.md", {})
    ((shown, _),) = run(ROOT / "docs/RECOVERY.md", {})
    assert all(word in shown for word in ("to", "be", "or", "not"))
