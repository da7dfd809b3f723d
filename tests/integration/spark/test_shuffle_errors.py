"""What is refused, or warned of, when `shuffle` is called, before any data moves."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import ShuffleError, ShuffleWarning, shuffle
from integration.spark import python_workers as workers
from integration.spark.shuffling.api import early_bytes, transport_config
from netstack import ConnectionLimits, NetworkConfig, TransportConfig
from tests.integration.clusters import ROOT, bare_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEGMENT = "taskmanager.memory.segment-size"
NETWORK_MAX = "taskmanager.memory.network.max"
MIB = 1 << 20


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(9, numPartitions=3).selectExpr(
        "id", "array(id) as list", "map(id, id) as m", "id + 1 as c"
    )


ARGUMENTS: list[tuple[list[Any], dict[str, Any], str]] = [
    ([], {}, "ship='hash' needs a key"),
    ([], {"ship": "range", "bounds": [1]}, "ship='range' needs a key"),
    (["id"], {"ship": "rebalance"}, "ship='rebalance' takes no key; remove it"),
    (["id"], {"ship": "forward"}, "ship is 'forward', which is not one of hash, rebalance, broadcast, range"),
    (["id"], {"partitioner": "java"}, "partitioner is 'java', which is not one of flink, spark"),
    (
        [],
        {"ship": "broadcast", "partitioner": "spark"},
        " distributes rows by key; it has no effect with ship='broadcast'",
    ),
    (["id"], {"ship": "range"}, "ship='range' needs bounds"),
    (["id"], {"bounds": [1]}, "bounds are for ship='range'"),
    (["id"], {"num_partitions": 0}, "num_partitions is 0; it must be a whole number from 1"),
    (["id"], {"num_partitions": True}, "num_partitions is True"),
    (["id"], {"num_partitions": "3"}, "num_partitions is '3'"),
    (["id"], {"num_partitions": 40_000}, "num_partitions is 40000; it must be at most 32768"),
    (["id"], {"num_partitions": 9, "max_memory": "many"}, "max_memory: 'many' is not .*it must be"),
    (["id"], {"num_partitions": 9, "max_memory": 1000}, "max_memory is 1000; it must be at least 1 mb"),
    (["id"], {"compression": "gzip"}, "compression is 'gzip', which is not one of lz4, zstd"),
    ([7], {}, "key 7 is neither the name of a column nor a Column; .* is num_partitions=7"),
    ([["id"], "c"], {}, r"key \['id'\] is neither the name of a column nor a Column"),
    ([[]], {}, "ship='hash' needs a key"),
    (["no"], {}, "there is no such key column: .*`no` cannot be resolved"),
    (["list"], {}, "column 'list': type list<.*> cannot be a key"),
    (["m"], {"partitioner": "spark"}, "this key cannot be used: .*MAP"),
    (
        ["id"],
        {"ship": "range", "bounds": [1, 2], "num_partitions": 2},
        "2 bounds make 3 partitions, but .* is 2",
    ),
    (
        ["id"],
        {"ship": "range", "bounds": [5, 5]},
        r"bounds\[1\] is 5, which is not above the previous bound, 5, in Spark's ordering; bounds must "
        r"rise",
    ),
    (
        ["id"],
        {"ship": "range", "bounds": [5, 7, 6]},
        r"bounds\[2\] is 6, which is not above the previous bound, 7, in Spark's ordering; bounds must "
        r"rise",
    ),
    (["id"], {"ship": "range", "bounds": ["x"]}, r"bounds\[0\] is 'x', which is not a value of type bigint"),
    (["id"], {"ship": "range", "bounds": [1.5]}, r"bounds\[0\] is 1.5, which is not a value of type bigint"),
    (["id"], {"ship": "range", "bounds": [1, None]}, r"bounds\[1\] is None; null cannot be a bound"),
    (["id"], {"ship": "range", "bounds": [(1, 2)]}, r"bounds\[0\] is \(1, 2\); it must be 1 value"),
    (["id", "c"], {"ship": "range", "bounds": [1]}, r"bounds\[0\] is 1; it must be a tuple of 2 values"),
    (
        ["id", "c"],
        {"ship": "range", "bounds": [(1, 5), (1, 4)]},
        r"bounds\[1\] is \(1, 4\), which is not above the previous bound, ",
    ),
    (["m"], {"ship": "range", "bounds": [{}]}, r"bounds\[0\] is {}, which is not a value of type map"),
    (["id"], {"config": {"segment-size": 1}}, f"config.segment-size: .*did you mean .*{SEGMENT}"),
    (["id"], {"config": {SEGMENT: "much"}}, f"config.{SEGMENT}: .*it must be"),
    (["id"], {"config": {SEGMENT: "3 kb"}}, f"config.{SEGMENT}: is 3 kb; it must be a power of two"),
    (["id"], {"config": {NETWORK_MAX: "64 kb"}}, f"config.{NETWORK_MAX}: is too little for 3 partitions"),
    (["id"], {"config": {7: "x"}}, "config: 7 is not the name of an option"),
    (["id"], {"config": ["a"]}, "config is a list; it must be a mapping"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("keys", "options", "problem"), ARGUMENTS)
def test_what_makes_no_sense_is_refused(
    frame: DataFrame, keys: list[Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ShuffleError, match=problem):
        shuffle(frame, *keys, **options)


@pytest.mark.spark
def test_each_wrong_option_has_a_line(frame: DataFrame) -> None:
    with pytest.raises(ShuffleError) as raised:
        shuffle(frame, "id", config={"nothing.like.it": 1, SEGMENT: -1})
    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == [
        "config.nothing.like.it",
        f"config.{SEGMENT}",
    ]


@pytest.mark.spark
def test_types_that_cannot_travel_are_named(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as k, make_ym_interval(1, 2) as ym from range(0, 3, 1, 2)")
    with pytest.raises(ShuffleError, match="column 'ym' cannot be sent"):
        shuffle(frame, "k")
    twins = spark.sql("select 1 as k, named_struct('a', 1, 'a', 2) as twins from range(0, 3, 1, 2)")
    with pytest.raises(ShuffleError, match="column 'twins' cannot be sent"):
        shuffle(twins, "k")


@pytest.mark.spark
def test_collations_are_no_keys_but_have_ranges(spark: SparkSession) -> None:
    frame = spark.sql("select * from values ('a'), ('B'), ('c') as t(k)").selectExpr(
        "k collate UNICODE_CI as k"
    )
    frame = frame.repartition(2)
    for options in ({}, {"partitioner": "spark"}):
        with pytest.raises(ShuffleError, match=r"key 'k' has the collation UNICODE_CI.*lower\(k\)"):
            shuffle(frame, "k", **options)
    shuffled = shuffle(frame, "k", ship="range", bounds=["b"])
    assert shuffled.schema == frame.schema
    assert sorted(row.k for row in shuffled.collect()) == ["B", "a", "c"]


@pytest.mark.spark
def test_dynamic_allocation(spark: SparkSession) -> None:
    conf = spark.sparkContext._jsc.sc().conf()
    names = ["spark.dynamicAllocation.enabled", "spark.dynamicAllocation.testing"]  # the second: locally, too
    for name in names:
        conf.set(name, "true")
    try:
        with pytest.raises(
            ShuffleError, match=r"Spark does not run while spark\.dynamicAllocation\.enabled is true"
        ):
            shuffle(spark.range(9, numPartitions=3), "id")
    finally:
        for name in names:
            conf.remove(name)


@pytest.mark.spark
def test_speculation_is_none_of_its_business(spark: SparkSession) -> None:
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.speculation", "true")
    try:
        assert shuffle(spark.range(9, numPartitions=2), "id").count() == 9
    finally:
        conf.remove("spark.speculation")


@pytest.mark.spark
def test_streams_are_for_each_batch(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ShuffleError, match=r"foreachBatch, which docs/examples/shuffle_stream\.py shows"):
        shuffle(stream, "value")


class ConnectFrame:
    """A class in the module that defines DataFrames of Spark Connect."""

    __module__ = "pyspark.sql.connect.dataframe"


def test_spark_connect_and_what_is_no_frame() -> None:
    connect: Any = ConnectFrame()
    with pytest.raises(ShuffleError, match=r"no access to the SparkContext .* use a classic session"):
        shuffle(connect, "id")
    rows: Any = [(1,)]
    with pytest.raises(ShuffleError, match="df is a list, not a DataFrame"):
        shuffle(rows, "id")


def test_importing_the_names_imports_no_pyspark() -> None:
    import subprocess
    import sys

    program = (
        "import sys, integration.spark as ours\n"
        "ours.shuffle, ours.shuffled_by, ours.shuffle_statistics, ours.ShuffleError, ours.ShuffleWarning\n"
        "assert not {'pyspark', 'py4j'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


MEMORY = "taskmanager.memory.network.max"


@pytest.mark.parametrize(
    ("given", "tasks", "kib"),
    [
        (None, 2, 512),
        ({}, 8, 512),
        (None, 9, 128),
        (None, 33, 32),
        ({MEMORY: "2 mb"}, 2, 128),
        ({MEMORY: "8 mb"}, 2, 512),
        ({SEGMENT: "32 kb"}, 2, 32),
    ],
)
def test_segments_are_as_large_as_tasks_and_memory_allow(
    given: dict[str, Any] | None, tasks: int, kib: int
) -> None:
    assert transport_config(given, tasks).network.segment_bytes == kib << 10


def test_options_become_settings() -> None:
    settings = transport_config({SEGMENT: "64 kb", "heartbeat": {"timeout": "7 s"}}, 3)
    assert settings.network.segment_bytes == 64 << 10
    assert settings.limits == ConnectionLimits(keep_alive_s=7.0)
    assert transport_config(None, 3).limits.keep_alive_s == 50.0
    network = NetworkConfig(segment_bytes=4096)
    assert transport_config(network, 3).network == network
    own = TransportConfig(limits=ConnectionLimits(keep_alive_s=1.0))
    assert transport_config(own, 3) is own


def test_rows_before_the_connection_are_bounded_by_the_network_memory() -> None:
    assert early_bytes(TransportConfig()) == 64 * MIB
    assert early_bytes(transport_config({"taskmanager.memory.network.min": "1 mb"}, 2)) == MIB
    assert early_bytes(transport_config({NETWORK_MAX: "3 mb"}, 2)) == 3 * MIB


def test_options_without_effect_are_warned_of() -> None:
    with pytest.warns(
        ShuffleWarning, match=r"config.execution\.checkpointing\.interval: has no effect in a shuffle"
    ):
        transport_config({"execution.checkpointing.interval": "1 s", SEGMENT: "32 kb"}, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transport_config(TransportConfig(), 2)


DAEMON = "spark.python.daemon.module"


@pytest.fixture
def without_checkout(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A worker's folder is the driver's, and Python looks there for modules unless told not to."""
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONSAFEPATH", "1")
    monkeypatch.delitem(spark.sparkContext.environment, "PYTHONPATH")
    conf: Any = spark.sparkContext._jsc.sc().conf()
    ours = conf.get(DAEMON)
    conf.set(DAEMON, "pyspark.daemon")  # which imports nothing of ours
    yield monkeypatch
    conf.set(DAEMON, ours)


@pytest.mark.spark
@pytest.mark.parametrize("libraries", [None, set()], ids=["netstack", "pyarrow"])
def test_a_python_of_the_workers_that_lacks_something_is_refused(
    spark: SparkSession, without_checkout: pytest.MonkeyPatch, tmp_path: Path, libraries: set[str] | None
) -> None:
    """It has no package of ours, or these only, and no library."""
    python = str(bare_python(tmp_path / "bare", libraries))
    without_checkout.setattr(spark.sparkContext, "pythonExec", python)
    if libraries is not None:
        without_checkout.setitem(spark.sparkContext.environment, "PYTHONPATH", str(ROOT))
    lacking = "integration" if libraries is None else "[a-z]+"
    with pytest.raises(ShuffleError, match=r"; let PYSPARK_PYTHON.*--py-files") as raised:
        shuffle(spark.range(9, numPartitions=2), "id")
    assert re.match(
        f"the Python of this worker, {python}, has no module '{lacking}'; let PYSPARK", str(raised.value)
    )


@pytest.mark.spark
def test_a_worker_with_another_version_says_so(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "code_version", lambda on_one_machine: "that of another driver")
    shuffled = shuffle(spark.range(9, numPartitions=2), "id")
    with pytest.raises(
        Exception, match=r" has another version of netstack than the driver; let PYSPARK_PYTHON.*--py-files"
    ):
        shuffled.collect()


@pytest.mark.long
def test_versions_differ_with_the_code(tmp_path: Path) -> None:
    import subprocess
    import sys

    from integration.spark.python_workers import code_version, write_package

    def version_in(path: Path, on_one_machine: bool) -> str:
        program = (
            "from integration.spark.python_workers import code_version\n"
            f"print(code_version({on_one_machine}))"
        )
        environment = {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    whole, changed = tmp_path / "whole.zip", tmp_path / "changed"
    write_package(whole)
    shutil.unpack_archive(whole, changed)
    assert version_in(whole, False) == version_in(changed, False) == code_version(False)
    assert version_in(whole, True) != version_in(changed, True)
    with (changed / "netstack" / "job.py").open("a") as module:
        module.write("# changed")
    assert version_in(changed, False) != code_version(False)


def test_an_error_names_a_column_as_its_user_does(spark: SparkSession) -> None:
    frame = spark.range(4, numPartitions=2).selectExpr("id", "array(id) as list", "id as `a.b`")
    with pytest.raises(ShuffleError, match="column 'list': type list"):
        shuffle(frame, "list")
