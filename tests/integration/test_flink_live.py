"""The whole way with a real Flink, started from the package apache-flink-libraries."""

import importlib.util
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from integration.analysis.comparison import END_TO_END, START_DELAY, THROUGHPUT
from integration.flink.rest import FlinkRestError, Imported, import_scenario, validate
from integration.runs.scenario_runs import run_seeds

JOB = Path(__file__).parents[1] / "data/flink-rest/SlowConsumers.java"
PATIENCE_S = 120
LATE_S = 40
"""After so long the job has sized its buffers."""

OPENED = (
    "java.base/java.util",
    "java.base/java.lang",
    "java.base/java.util.concurrent",
    "java.base/java.nio",
)
"""What Flink needs to see of Java."""


def libraries() -> Path | None:
    """The folder of Flink's jars."""
    found = importlib.util.find_spec("pyflink")
    places = [] if found is None else list(found.submodule_search_locations or ())
    return next((Path(place, "lib") for place in places if Path(place, "lib").is_dir()), None)


def missing() -> str:
    if libraries() is None:
        return "apache-flink-libraries is not installed"
    return "" if shutil.which("javac") else "there is no javac to compile the job with"


@contextmanager
def flink(folder: Path, **options: str) -> Iterator[str]:
    """A cluster in a process of its own with a job that runs; yields its address."""
    jars = f"{libraries()}/*"
    subprocess.run(["javac", "-cp", jars, "-d", str(folder), str(JOB)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    given = {"rest.port": str(port), "rest.address": "127.0.0.1", **options}
    command = ["java", "-Xmx512m", *opened, "-cp", f"{folder}:{jars}", "SlowConsumers"]
    process = subprocess.Popen(
        [*command, *(f"{name}={value}" for name, value in given.items())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.communicate()  # the job ends with its input


def read_when_it_runs(url: str) -> Imported:
    until = monotonic() + PATIENCE_S
    while True:
        try:
            imported = import_scenario(url)
            if imported.measured.steady.to_s > LATE_S:
                return imported
        except FlinkRestError:
            if monotonic() > until:
                raise
        sleep(2)


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_real_job_is_read_and_predicted(tmp_path):
    options = {
        "metrics.fetcher.update-interval": "500",
        "execution.checkpointing.interval": "2 s",
        "taskmanager.network.memory.buffer-debloat.enabled": "true",
        "taskmanager.network.memory.buffer-debloat.target": "500 ms",
    }
    with flink(tmp_path, **options) as url:
        imported = read_when_it_runs(url)
    numbers, slow = imported.scenario.vertices
    assert (numbers.name, slow.name) == ("numbers", "slow")
    assert (numbers.parallelism, slow.parallelism) == (2, 2)
    # The serializer puts a tag, a timestamp and its length before the array.
    assert numbers.source.record_bytes == pytest.approx(1013, abs=3)
    assert slow.service[0][1] == pytest.approx(0.005, rel=0.15)
    assert imported.scenario.edges[0].ship == "rebalance"
    config = imported.scenario.config
    assert (config.debloat_enabled, config.debloat_target_s, config.checkpoint_interval_s) == (True, 0.5, 2)
    found = validate(imported, run_seeds([imported.scenario], 3)[0])
    ratios = {row.quantity: row.ratio for row in found.comparison.rows}
    assert ratios[THROUGHPUT] == pytest.approx(1, abs=0.03)
    for quantity in (START_DELAY, END_TO_END):
        assert ratios[quantity] == pytest.approx(1, abs=0.25), found.comparison
