import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration import load_scenario
from integration.advise.size.job_from_numbers import (
    Numbers,
    records_per_s,
    scenario_of_numbers,
    with_settings,
)
from integration.advise.size.job_size import ConsumerSize, flows, held_back, size_job
from integration.cli.app import main
from integration.show.terminal.sizing import SizeReport
from netstack import (
    SHIPS,
    Edge,
    GeneratorSpec,
    InputError,
    LinkConditions,
    NetworkConfig,
    PathSpec,
    QuantityError,
    Scenario,
    Vertex,
    channel_counts,
)
from netstack.scenarios.ship_strategies import consumers_of_producers, producers_of_consumers

REFERENCES = Path(__file__).parents[4] / "tests/data/flink-reference"

COUNTS = st.integers(1, 12)


def scenario(*vertices: Vertex, edges: tuple[Edge, ...] | None = None, **settings: Any) -> Scenario:
    """A job; a chain unless its edges are given."""
    if edges is None:
        names = [vertex.name for vertex in vertices]
        edges = tuple(Edge(source=a, target=b) for a, b in pairwise(names))
    return Scenario(name="job", duration_s=1.0, vertices=vertices, edges=edges, **settings)


def source(name: str = "source", parallelism: int = 1, rate: float = 0.0, size: int = 996) -> Vertex:
    spec = GeneratorSpec(record_bytes=size, rates=(rate,))
    return Vertex(name=name, parallelism=parallelism, source=spec)


def worker(name: str, cost_s: float, parallelism: int = 1, **more: Any) -> Vertex:
    return Vertex(name=name, parallelism=parallelism, service=((0.0, cost_s),), **more)


def only(job: Scenario) -> ConsumerSize:
    (consumer,) = size_job(job).consumers
    return consumer


@given(COUNTS, COUNTS, st.sampled_from(SHIPS))
def test_channels_are_counted_as_the_emulator_wires_them(producers: int, consumers: int, ship: str) -> None:
    consumers = producers if ship == "forward" else consumers
    reached = consumers_of_producers(ship, producers, consumers)
    subpartitions = Counter(map(len, reached))
    channels = Counter(map(len, producers_of_consumers(reached, consumers)))
    assert channel_counts(ship, producers, consumers) == channels
    assert channel_counts(ship, consumers, producers) == subpartitions


CONFIGS = st.builds(
    NetworkConfig,
    exclusive_buffers_per_channel=st.integers(0, 4),
    floating_buffers_per_gate=st.integers(1, 9),
    max_overdraft_buffers_per_gate=st.integers(0, 6),
    max_required_buffers_per_gate=st.none() | st.integers(1, 20),
)


@given(COUNTS, COUNTS, COUNTS, st.sampled_from(SHIPS[1:]), st.booleans(), CONFIGS)
def test_pools_can_use_at_least_the_memory_with_which_they_start(
    first: int, second: int, third: int, ship: str, together: bool, config: NetworkConfig
) -> None:
    job = scenario(
        source(parallelism=first),
        worker("middle", 0.001, second, task_manager="source" if together else None),
        worker("sink", 0.001, third),
        edges=(
            Edge(source="source", target="middle", ship=ship),
            Edge(source="middle", target="sink", ship="hash"),
        ),
        config=config,
    )
    assert all(each.required_buffers <= each.most_buffers for each in size_job(job).task_managers)


@pytest.mark.parametrize("together", [False, True])
def test_counts_of_the_default_options(together: bool) -> None:
    """2 exclusive a channel and 8 floating at both ends; a producer starts with one for each, and one."""
    manager = "one" if together else None
    first = replace(source(parallelism=4), task_manager=manager)
    job = size_job(scenario(first, worker("sink", 0.001, 2, task_manager=manager)))
    (exchange,) = job.exchanges
    assert (exchange.subpartitions, exchange.channels) == (2, 4)
    assert (exchange.partition_required, exchange.partition_most, exchange.overdraft) == (3, 12, 20)
    assert (exchange.exclusive, exchange.floating_required, exchange.floating_most) == (
        0 if together else 8,
        1,
        8,
    )
    required = {each.task_manager: each.required_buffers for each in job.task_managers}
    assert required == ({"one": 14} if together else {"source": 12, "sink": 18})


def rates(job: Scenario) -> dict[str, int]:
    return {name: round(flow.records_per_s) for name, flow in flows(job).items()}


def test_the_slowest_vertex_decides_and_holds_back_all_before_it() -> None:
    job = scenario(source(parallelism=2), worker("a", 0.001, 4), worker("b", 0.004, 2), worker("c", 0.001, 1))
    found = flows(job)
    assert rates(job) == dict.fromkeys(["source", "a", "b", "c"], 500)
    assert held_back(job, found) == {"a", "b"}
    assert [(each.name, each.is_held_back) for each in size_job(job).consumers] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]


def test_the_slowest_subtask_ties_all_others() -> None:
    job = scenario(source(), worker("a", 0.001, 4, service_skew=(1, 1, 1, 4)))
    assert rates(job)["a"] == 1000  # 4 times 250, as the slowest takes


def test_sources_with_a_rate_are_slowed_down_only_if_they_must_be() -> None:
    assert rates(scenario(source(rate=300), worker("a", 0.001)))["a"] == 300
    paced = scenario(source(rate=300), worker("a", 0.001))
    assert held_back(paced, flows(paced)) == set()
    assert rates(scenario(source(parallelism=5, rate=300), worker("a", 0.001)))["a"] == 998


def test_a_source_without_a_rate_fills_what_the_others_leave() -> None:
    edges = (Edge(source="slow", target="a"), Edge(source="fast", target="a"))
    job = scenario(source("slow", rate=300), source("fast", size=96), worker("a", 0.001), edges=edges)
    found = flows(job)
    assert rates(job) == {"slow": 300, "fast": 698, "a": 998}
    assert found["a"].record_bytes == pytest.approx((300 * 1000 + 698 * 100) / 998, rel=1e-3)


def test_a_source_goes_on_growing_where_another_one_is_stopped() -> None:
    edges = (
        Edge(source="slow", target="a"),
        Edge(source="a", target="union"),
        Edge(source="fast", target="union"),
    )
    job = scenario(source("slow"), source("fast"), worker("a", 0.1), worker("union", 0.001, 2), edges=edges)
    assert rates(job) == {"slow": 10, "a": 10, "fast": 1987, "union": 1997}
    assert held_back(job, flows(job)) == {"a", "union"}


def test_a_broadcast_gives_every_record_to_all() -> None:
    edges = (Edge(source="source", target="a", ship="broadcast"),)
    job = scenario(source(rate=10), worker("a", 0.001, 3), edges=edges)
    assert rates(job) == {"source": 10, "a": 30}
    assert only(job).records_per_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("name", "vertex"),
    [
        ("1x1_5MBs_off", 1),
        ("2x2_5MBs_off", 1),
        ("2x2_1MBs_off", 1),
        ("2x2_1MBs_bpc0_off", 1),
        ("2x2_200KBs_off_interval10s", 1),
        ("4x4_1MBs_off", 1),
        ("2x2x2_1MBs_depth2_off", 2),
    ],
)
def test_the_time_to_drain_is_the_start_delay_that_flink_measured(name: str, vertex: int) -> None:
    """Where checkpoints are rare enough for the queues to fill again; of a vertex, with those before it."""
    measured = json.loads((REFERENCES / f"{name}.json").read_bytes())["steady"][-1]["vertices"]
    consumers = size_job(load_scenario(REFERENCES / f"{name}.toml")).consumers
    drain = sum(each.expected_drain_ms or 0.0 for each in consumers[:vertex])
    delay = measured[vertex]["start_delay_ms"] - measured[0]["start_delay_ms"]
    assert drain == pytest.approx(delay, rel=0.06)


def test_a_slow_subtask_gets_nearly_all_that_waits() -> None:
    """16 buffers of each of 4 senders, of which a quota of 10 may be for one: 9 full ones and an open one."""
    even, uneven = worker("a", 0.001, 4), worker("a", 0.001, 4, service_skew=(4, 1, 1, 1))
    assert only(scenario(source(parallelism=4), even)).expected_buffers == 4 * (12 / 4 + 0.5) + 15
    assert only(scenario(source(parallelism=4), uneven)).expected_buffers == 4 * (9 + 0.5) + 15
    assert only(scenario(source(parallelism=4), even)).worst_buffers == 4 * 10 + 16


@given(COUNTS, COUNTS, st.sampled_from(SHIPS[1:]), st.floats(1e-5, 0.1), st.integers(8, 100_000), CONFIGS)
def test_no_more_waits_than_can_at_worst_and_no_less_than_at_least(
    producers: int, consumers: int, ship: str, cost_s: float, size: int, config: NetworkConfig
) -> None:
    edges = (Edge(source="source", target="a", ship=ship),)
    first, second = source(parallelism=producers, size=size), worker("a", cost_s, consumers)
    found = only(scenario(first, second, edges=edges, config=config))
    assert found.expected_buffers <= found.worst_buffers
    assert config.min_segment_bytes <= found.least_buffer_bytes <= config.segment_bytes
    assert found.least_drain_ms is not None
    assert found.expected_drain_ms is not None
    assert found.least_drain_ms <= found.expected_drain_ms


@pytest.mark.parametrize(
    ("size", "least"), [(96, 256), (996, 1000), (100_000, 32768)], ids=["small", "medium", "large"]
)
def test_a_debloated_buffer_holds_at_least_a_record(size: int, least: int) -> None:
    assert only(scenario(source(size=size), worker("a", 0.001))).least_buffer_bytes == least


def debloated(target_s: float) -> ConsumerSize:
    config = NetworkConfig(debloat_enabled=True, debloat_target_s=target_s)
    return only(scenario(source(parallelism=2), worker("a", 0.001, 2), config=config))


def test_debloating_comes_to_its_target_unless_buffers_are_too_small_or_large() -> None:
    assert debloated(0.1).debloated_drain_ms == pytest.approx(100)
    assert debloated(0.1).debloated_bytes == pytest.approx(998_000 * 0.1 / 22, rel=0.01)
    assert debloated(0.001).debloated_drain_ms == debloated(0.001).least_drain_ms
    assert debloated(0.001).debloated_bytes == 1000
    assert debloated(10.0).debloated_drain_ms == debloated(10.0).expected_drain_ms


def test_the_buffers_of_a_link_are_throughput_times_round_trip() -> None:
    """The example of Flink's documentation: 320 MB/s, a millisecond, 32 KB: 10 buffers."""
    rate = 320 * 1024 * 1024
    job = scenario_of_numbers(Numbers(f"{rate} B/s", record_bytes=32 * 1024 - 4, round_trip="1 ms"))
    link = only(job).link
    assert link is not None
    assert (link.needed_buffers, link.credit_buffers) == (11, 10)  # 10.24, and 2 + 8
    assert link.most_bytes_per_s == pytest.approx(10 * 32768 / 0.001)


def test_a_round_trip_sets_the_least_target() -> None:
    """All credit together has to hold what is read in a round trip."""
    job = scenario_of_numbers(Numbers("10 MB/s", round_trip="20 ms"))
    found = only(job)
    assert found.link is not None
    assert found.least_buffer_bytes == pytest.approx(10e6 * 0.02 / found.link.credit_buffers, abs=2)
    assert found.least_drain_ms == pytest.approx(found.link.least_target_ms, rel=1e-3)
    assert only(with_settings(job, (), "0 ms")).least_buffer_bytes == 1004


def test_channels_within_a_task_manager_need_no_link() -> None:
    job = scenario(replace(source(), task_manager="one"), worker("a", 0.001, task_manager="one"))
    found = only(job)
    assert found.link is None
    assert found.worst_buffers == 10
    assert found.expected_buffers == 9.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 MB/s", 10e6 / 1000),
        ("2000 records/s", 2000),
        ("0.5/s", 0.5),
        ("1 KiB/s", 1.024),
        ("8 mbit/s", 1000),
    ],
)
def test_throughputs_in_bytes_and_in_records(text: str, expected: float) -> None:
    assert records_per_s(text, 1000) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "5", "5 MB", "-1/s", "0/s", "0 MB/s", "fast"])
def test_what_is_no_throughput_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="records/s"):
        records_per_s(text, 1000)


def test_a_job_of_numbers_has_that_throughput() -> None:
    job = scenario_of_numbers(Numbers("12 MB/s", "2:3", record_bytes=500, ship="hash"))
    assert only(job).bytes_per_s == pytest.approx(4e6)
    assert [vertex.parallelism for vertex in job.vertices] == [2, 3]
    spread = scenario_of_numbers(Numbers("12 MB/s", "2:3", ship="broadcast"))
    assert only(spread).bytes_per_s == pytest.approx(4e6)


def test_records_of_files_have_to_be_given_a_size() -> None:
    files = Vertex(name="source", parallelism=2, source=PathSpec(path="x.parquet"))
    job = scenario(files, worker("a", 0.001, 2))
    with pytest.raises(InputError, match=r"^record_bytes: is required"):
        size_job(job)
    assert size_job(job, 996).consumers[0].bytes_per_s == pytest.approx(998e3, rel=1e-2)
    with pytest.raises(InputError, match=r"vertices\.source\.parallelism: is missing"):
        size_job(scenario(replace(files, parallelism=0), worker("a", 0.001, 2)), 996)


def test_the_link_of_a_scenario_counts() -> None:
    link = LinkConditions(latency_s=0.005)
    found = only(scenario(source(), worker("a", 0.001), link=link)).link
    assert found is not None
    assert found.round_trip_ms == 10


def test_the_command_prints_tables_of_80_columns(capsys) -> None:
    assert main(["size", "--throughput", "40 MB/s", "--parallelism", "4:2", "--round-trip", "40 ms"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "needs 25 buffers at the receiver, which has 16. This is too few: only 12.5 MiB/s" in " ".join(
        out.split()
    )


def test_the_command_says_whether_the_given_memory_suffices(capsys) -> None:
    file, option = str(REFERENCES / "2x2_1MBs_off.toml"), "taskmanager.memory.network.max"
    assert main(["size", file, "--set", f"{option}=256kb"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "stage1: taskmanager.memory.network.max is 256 KiB: it does not start; give at least 320 KiB" in out
    )
    assert (
        "source: taskmanager.memory.network.max is 256 KiB: it starts, but its pools could use 2.00 MiB"
        in out
    )


def test_the_command_writes_its_figures(tmp_path, capsys) -> None:
    arguments = ["size", "--throughput", "1 MB/s", "--flink", "1.20", "--json", "--out", str(tmp_path)]
    assert main(arguments) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=SizeReport)
    assert msgspec.json.decode((tmp_path / "size.json").read_bytes(), type=SizeReport) == report
    assert report.size.schema == "netstack.size/1"
    assert report.size.exchanges[0].overdraft == 5
    assert report.check is None


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "netstack size: give a scenario, or --throughput"),
        (["--throughput", "3"], "netstack size: --throughput: '3' has no unit"),
        (
            ["--throughput", "1 MB/s", "--parallelism", "0"],
            "netstack size: --parallelism: '0' is not a parallelism",
        ),
        (
            ["--throughput", "1 MB/s", "--ship", "hsh"],
            "netstack size: --ship: 'hsh' is unknown; did you mean 'hash'",
        ),
        (
            ["--throughput", "1 MB/s", "--set", "x"],
            "netstack size: --set x: has no value; write it as OPTION=VALUE",
        ),
        (
            ["--throughput", "1 MB/s", "--set", "x=1"],
            "netstack size: --set x: no version of Flink that netstack knows has this option",
        ),
        (["--throughput", "1 MB/s", "--round-trip", "3"], "netstack size: --round-trip: '3' has no unit"),
        (
            ["--throughput", f"{'9' * 400} MB/s"],
            "netstack size: --throughput: 1.00e+406 is too large; it must be a rate such as",
        ),
        (
            ["--throughput", "1 MB/s", "--parallelism", "9" * 5000],
            "netstack size: --parallelism: '999",
        ),
        (
            ["--throughput", "1 MB/s", "--record-bytes=-4"],
            "netstack size: vertices.source.source.record_bytes: is -4",
        ),
        (
            ["--throughput", "1 MB/s", "--flink", "3"],
            "netstack size: --flink is '3'; it must be 2.3, 2.2 or 1.20",
        ),
        (
            ["--throughput", "1 MB/s", "--seeds", "0", "--check"],
            "netstack size: --seeds is 0; it must be at least 1",
        ),
        (
            ["--throughput", "1 MB/s", "--record-bytes", "2"],
            "netstack size: vertices.source.source.record_bytes",
        ),
        (["missing.toml"], "missing.toml: there is no such file"),
        (
            [str(REFERENCES / "2x2_1MBs_off.toml"), "--ship", "hash"],
            "netstack size: --ship cannot be combined with a scenario",
        ),
        (
            [str(REFERENCES / "2x2_1MBs_off.toml"), "--set", "taskmanager.memory.segment-size=3kb"],
            "netstack size: flink.taskmanager.memory.segment-size: is 3 kb; it must be a power of two",
        ),
    ],
)
def test_mistakes_are_one_line_on_stderr(capsys, arguments, line) -> None:
    assert main(["size", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert printed.err.count("\n") == 1


def test_all_mistakes_are_named_at_once_by_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--throughput", "3", "--parallelism", "0", "--ship", "hsh", "--round-trip", "4"]
    assert main(["size", *arguments, "--set", "x", "--set", "y=1", "--record-bytes", "2"]) == 2
    names = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
    assert names == [
        "--parallelism",
        "--throughput",
        "--ship",
        "--set x",
        "--set y",
        "--round-trip",
        "vertices.source.source.record_bytes",
    ]


def test_the_command_asks_for_the_size_of_records_in_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, data = tmp_path / "job.toml", tmp_path / "x.csv"
    data.write_text("a\n1\n")
    vertices = (
        f'[{{ name = "source", parallelism = 1, source = {{ path = "{data}" }} }}, {{ name = "sink" }}]'
    )
    file.write_text(
        f'name = "j"\nduration = "1 s"\nvertices = {vertices}\nedges = [{{ from = "source", to = "sink" }}]\n'
    )
    assert main(["size", str(file)]) == 2
    assert capsys.readouterr().err == (
        "netstack size: --record-bytes: is required, since vertices.source.source reads files\n"
    )
    assert main(["size", str(file), "--record-bytes", "100"]) == 0


def test_a_throughput_that_the_consumer_cannot_have_is_said(capsys) -> None:
    assert main(["size", "--throughput", "2 GB/s", "--parallelism", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(
        "netstack size: --throughput 2 GB/s: the consumer can read at most 2 x 333,333 records/s, so "
        "the figures are for that rate; give a higher --parallelism, or a larger --record-bytes"
    )
    assert main(["size", "--throughput", "2 GB/s", "--parallelism", "2", "--record-bytes", "100000"]) == 0
    assert capsys.readouterr().err == ""


def test_with_adaptive_partition_selection_each_subtask_reads_what_it_can() -> None:
    """In a real Flink 2.3.0: 3,215 records/s, and the last barrier after 3.09 s at the slowest subtask."""
    file = REFERENCES / "flink23_4x4_1MBs_skewed_consumers_adaptive.toml"
    scenario = load_scenario(file)
    assert flows(scenario)["stage1"].records_per_s == pytest.approx(3215, rel=0.02)
    (consumer,) = size_job(scenario).consumers
    assert consumer.by_load
    assert consumer.records_per_s == pytest.approx(250, rel=0.01)
    assert consumer.expected_drain_ms == pytest.approx(3090, rel=0.25)
    in_turns = replace(scenario, config=NetworkConfig())
    assert flows(in_turns)["stage1"].records_per_s == pytest.approx(996, rel=0.02)
    assert not size_job(in_turns).consumers[0].by_load
