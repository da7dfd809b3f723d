"""Whole jobs in virtual time: what arrives, in which order, when, and that everything is given back."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from buffers import InsufficientBuffers, RecordBlock
from netstack import (
    CollectionReader,
    CollectionSource,
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Recorder,
    Result,
    Scenario,
    SourceObject,
    Vertex,
    emulate,
    flat_map,
    map_blocks,
    map_records,
    run_job,
    sink,
    text_hash,
    to_json,
)
from netstack.engine.agenda import Agenda
from netstack.jobs.job import Job
from netstack.tasks.operators import OperatorFactory
from tests.netstack.whole_jobs import EXACT, run


def numbered(source: int, count: int) -> list[bytes]:
    return [b"%d:%d" % (source, number) for number in range(count)]


def finite(
    ship: str,
    producers: int,
    consumers: int,
    records: int = 500,
    config: NetworkConfig | None = None,
    **options: object,
) -> tuple[Scenario, list[list[bytes]]]:
    """A job that ends by itself, and what its consumers saw, filled when it runs."""
    seen: list[list[bytes]] = [[] for _ in range(consumers)]
    source = CollectionSource([numbered(index, records) for index in range(producers)], key_hash=text_hash)

    def collect(subtask: int) -> object:
        return sink(seen[subtask].append)(subtask)

    factory: OperatorFactory = collect  # type: ignore[assignment]
    scenario = Scenario(
        name=ship,
        duration_s=600.0,
        config=config or NetworkConfig(),
        vertices=(
            Vertex(name="source", parallelism=producers, source=SourceObject(source=source)),
            Vertex(name="sink", parallelism=consumers, operator=factory, **options),  # type: ignore[arg-type]
        ),
        edges=(Edge(source="source", target="sink", ship=ship),),
    )
    return scenario, seen


def in_order(records: list[bytes]) -> bool:
    """Whether the records of each source come in the order in which it emitted them."""
    last: dict[bytes, int] = {}
    for record in records:
        source, _, number = record.partition(b":")
        if last.setdefault(source, -1) >= int(number):
            return False
        last[source] = int(number)
    return True


@pytest.mark.parametrize(
    ("ship", "producers", "consumers"),
    [
        ("forward", 3, 3),
        ("rescale", 2, 4),
        ("rescale", 4, 2),
        ("rebalance", 3, 2),
        ("hash", 2, 5),
    ],
)
def test_every_record_arrives_once_and_in_order(ship: str, producers: int, consumers: int) -> None:
    scenario, seen = finite(ship, producers, consumers)
    run(scenario)
    everything = [record for index in range(producers) for record in numbered(index, 500)]
    assert sorted(record for one in seen for record in one) == sorted(everything)
    assert all(in_order(one) for one in seen)


def test_broadcast_reaches_every_consumer() -> None:
    scenario, seen = finite("broadcast", 2, 3)
    run(scenario)
    everything = sorted(numbered(0, 500) + numbered(1, 500))
    assert [sorted(one) for one in seen] == [everything] * 3
    assert all(in_order(one) for one in seen)


@pytest.mark.parametrize("segment_bytes", [64, 1024])
@pytest.mark.parametrize("exclusive", [0, 1, 2])
def test_records_that_span_buffers_survive(exclusive: int, segment_bytes: int) -> None:
    config = NetworkConfig(
        segment_bytes=segment_bytes, min_segment_bytes=64, exclusive_buffers_per_channel=exclusive
    )
    scenario, seen = finite("rebalance", 2, 2, config=config)
    long = [[b"%d:%d:" % (index, n) + b"x" * (37 * n % 501) for n in range(200)] for index in range(2)]
    vertex = replace(scenario.vertices[0], source=SourceObject(source=CollectionSource(long)))
    run(replace(scenario, vertices=(vertex, scenario.vertices[1])))
    assert sorted(record for one in seen for record in one) == sorted(long[0] + long[1])


def test_one_task_manager_exchanges_locally() -> None:
    scenario, seen = finite("rebalance", 2, 2, task_manager="one")
    scenario = replace(
        scenario, vertices=(replace(scenario.vertices[0], task_manager="one"), scenario.vertices[1])
    )
    job = run(scenario)
    assert job.work.messages == 0
    assert sorted(record for one in seen for record in one) == sorted(numbered(0, 500) + numbered(1, 500))


def test_a_buffer_timeout_of_zero_flushes_after_each_write() -> None:
    config = NetworkConfig(buffer_timeout_interval_s=0.0)
    scenario, seen = finite("rebalance", 1, 1, 20, config=config)
    paced = SourceObject(source=scenario.vertices[0].source.source, rates=(10.0,))  # type: ignore[union-attr]
    vertices = (replace(scenario.vertices[0], source=paced), scenario.vertices[1])
    job = run(replace(scenario, vertices=vertices, duration_s=1.01))
    assert len(seen[0]) == 11
    assert job.work.buffers == 11


def test_a_chain_of_operators_and_two_outputs() -> None:
    left: list[bytes] = []
    right: list[bytes] = []

    def twice(record: bytes) -> Iterator[bytes]:
        yield record
        yield record

    scenario = Scenario(
        name="chain",
        duration_s=60.0,
        vertices=(
            Vertex(name="source", source=SourceObject(source=CollectionSource([numbered(0, 300)]))),
            Vertex(name="upper", parallelism=2, operator=map_records(bytes.upper), service=((0.0, 1e-4),)),
            Vertex(name="twice", parallelism=2, operator=flat_map(twice)),
            Vertex(name="left", operator=sink(left.append), service=((0.0, 1e-4),)),
            Vertex(name="right", operator=sink(right.append)),
        ),
        edges=(
            Edge(source="source", target="upper"),
            Edge(source="upper", target="twice", ship="forward"),
            Edge(source="twice", target="left"),
            Edge(source="twice", target="right"),
        ),
    )
    job = run(scenario)
    assert job.work.records == 300 + 300 + 600 + 600
    assert sorted(left) == sorted(right) == sorted(numbered(0, 300) * 2)


def saturated(**options: object) -> Scenario:
    """Two sources as fast as possible into two consumers that are too slow."""
    settings: dict[str, object] = {
        "name": "saturated",
        "duration_s": 12.0,
        "warmup_s": 4.0,
        "config": NetworkConfig(checkpoint_interval_s=1.0),
        "vertices": (
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013)),
            Vertex(name="stage1", parallelism=2, service=((0.0, 0.001),)),
        ),
        "edges": (Edge(source="source", target="stage1"),),
    }
    return Scenario(**(settings | options))  # type: ignore[arg-type]


def test_alignment_can_be_computed_by_hand() -> None:
    # One source, one consumer of 10 ms a record, records of 1 KiB with their length, segments of 4 KiB:
    # a barrier waits for all that fits into the buffers, four records each.
    scenario = Scenario(
        name="by hand",
        duration_s=30.0,
        costs=EXACT,
        config=NetworkConfig(segment_bytes=4096, checkpoint_interval_s=3.0, buffer_timeout_enabled=False),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=1020)),
            Vertex(name="stage1", service=((0.0, 0.010),), service_mode="exact"),
        ),
        edges=(Edge(source="source", target="stage1", ship="forward"),),
    )
    result = emulate(scenario)
    delays = [checkpoint.vertices[1].start_delay_ms[0] for checkpoint in result.checkpoints[1:]]
    # 10 segments at the sender (9 full and the open one, which is nearly empty), 10 at the receiver of
    # which one is being worked on: between 18 and 20 buffers of 40 ms are ahead of the barrier.
    assert all(delay is not None and 720.0 <= delay <= 800.0 for delay in delays)
    assert all(checkpoint.vertices[1].alignment_ms == [0.0] for checkpoint in result.checkpoints)


def test_two_channels_align_and_the_fast_one_waits() -> None:
    vertices = (
        Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013, rates=(0.0, 20.0))),
        Vertex(name="stage1", service=((0.0, 0.002),)),
    )
    result = emulate(saturated(vertices=vertices))
    [steady] = result.steady
    consumer = steady.vertices[1]
    assert consumer.alignment_ms_max_subtask is not None
    assert consumer.start_delay_ms is not None
    # The slow source's few records overtake nothing but need not wait for the fast one's full buffers.
    assert consumer.alignment_ms_max_subtask > 2 * consumer.start_delay_ms > 0


def test_checkpoints_complete_one_after_the_other() -> None:
    result = emulate(saturated())
    complete = [checkpoint for checkpoint in result.checkpoints if checkpoint.status == "COMPLETED"]
    assert len(complete) >= 8
    assert [checkpoint.id for checkpoint in result.checkpoints] == list(range(1, len(result.checkpoints) + 1))
    for earlier, later in itertools.pairwise(complete):
        assert earlier.duration_ms is not None
        assert later.t >= earlier.t + earlier.duration_ms / 1000
    for checkpoint in complete:
        slowest = max(ms or 0.0 for vertex in checkpoint.vertices for ms in vertex.end_to_end_ms)
        assert slowest == checkpoint.duration_ms


def test_a_job_that_ends_keeps_completing_checkpoints() -> None:
    config = NetworkConfig(checkpoint_interval_s=0.05)
    scenario, _ = finite("rebalance", 3, 2, 1000, config=config, service=((0.0, 0.0002),))
    paced = replace(scenario.vertices[0].source, rates=(1000.0, 2000.0, 4000.0))  # type: ignore[type-var]
    result = emulate(
        replace(scenario, vertices=(replace(scenario.vertices[0], source=paced), scenario.vertices[1]))
    )
    assert 1.0 <= result.emulated_seconds < 2.0
    assert result.work.records == 3000
    # Two of the sources end on the way; the checkpoints after that count their channels as aligned.
    late = [checkpoint for checkpoint in result.checkpoints if 0.6 < checkpoint.t < 0.9]
    assert late
    assert all(checkpoint.status == "COMPLETED" for checkpoint in late)
    assert all(checkpoint.vertices[0].start_delay_ms[2] is None for checkpoint in late)


def document(result: Result) -> bytes:
    return to_json(msgspec_replace(result))


def msgspec_replace(result: Result) -> Result:
    import msgspec

    return msgspec.structs.replace(result, wall_seconds=0.0)


def test_same_seed_same_document_in_any_process() -> None:
    script = (
        "import sys, msgspec, tests_job\n"
        "from netstack import emulate, to_json\n"
        "result = msgspec.structs.replace(emulate(tests_job.saturated()), wall_seconds=0.0)\n"
        "sys.stdout.buffer.write(to_json(result))\n"
    )
    loader = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('tests_job', {str(Path(__file__))!r})\n"
        "module = importlib.util.module_from_spec(spec)\nsys.modules['tests_job'] = module\n"
        "spec.loader.exec_module(module)\n"
    )
    here = document(emulate(saturated()))
    for hash_seed in ("0", "12345"):
        there = subprocess.run(
            [sys.executable, "-c", loader + script],
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert there.stdout == here


def test_another_seed_another_run() -> None:
    assert document(emulate(saturated(), seed=1)) != document(emulate(saturated(), seed=2))


def test_a_run_that_is_ended_is_that_of_a_shorter_scenario() -> None:
    """Also where something else is due at that very moment, as a requested checkpoint is here."""
    whole = saturated(
        duration_s=30.0,
        warmup_s=2.0,
        config=NetworkConfig(checkpoint_interval_s=None),
        manual_checkpoints_s=(5.5, 7.0, 9.0),
    )
    asked = list[float]()

    def end_of_run(recorder: Recorder) -> float:
        asked.append(float(recorder.times[-1]))
        return 9.0 if len(recorder.checkpoints) >= 2 else 30.0

    ended = emulate(whole, end_of_run=end_of_run)
    assert asked[0] == 2.0, "not before the warm-up is over"
    assert asked[-1] < 9.0
    assert ended.scenario.duration_s == ended.emulated_seconds == 9.0
    assert document(ended) == document(emulate(whole.ending_at(9.0)))


def test_a_run_that_is_prolonged_is_that_of_a_longer_scenario() -> None:
    scenario = replace(saturated(), duration_s=6.0)

    def end_of_run(recorder: Recorder) -> float:
        return min(float(recorder.times[-1]) + 2.5, 10.0)

    ended = emulate(scenario, end_of_run=end_of_run)
    assert ended.emulated_seconds == 10.0
    assert document(ended) == document(emulate(scenario.ending_at(10.0)))


def test_a_run_does_not_go_back() -> None:
    scenario = replace(saturated(), duration_s=6.0)
    ended = emulate(scenario, end_of_run=lambda recorder: 0.5)
    assert document(ended) == document(emulate(scenario))


def test_memory_does_not_grow_with_the_length_of_the_job() -> None:
    def queued(duration_s: float) -> tuple[int, int]:
        peak = 0

        made = 0

        async def main() -> None:
            agenda = Agenda()
            job = Job(saturated(duration_s=duration_s), agenda)

            def look() -> None:
                nonlocal peak, made
                assert job.attempt is not None
                pools = job.attempt.builder.pools.values()
                peak, made = max(peak, len(agenda)), sum(pool._made for pool in pools)
                agenda.after(0.1, look)

            agenda.at(0.0, look)
            await job.run()

        trio.run(main)
        return peak, made

    short, long = queued(5.0), queued(50.0)
    assert long[0] <= short[0] + 10
    assert long[1] <= short[1] + 2


def test_cancelling_leaves_no_task_and_no_buffer() -> None:
    async def main() -> tuple[Job, bool]:
        job = Job(saturated(duration_s=1e6), Agenda())
        with trio.move_on_after(0.2) as scope:
            await job.run()
        return job, scope.cancelled_caught

    job, cancelled = trio.run(main)
    assert cancelled
    assert job.leaked_segments == 0


def test_the_real_clock_runs_the_same_job() -> None:
    scenario, seen = finite("rebalance", 2, 2, 50)
    result = trio.run(run_job, scenario)
    assert result.clock == "real"
    assert result.work.records == 100
    assert sum(len(one) for one in seen) == 100


def test_an_error_of_a_user_function_comes_out_as_it_is() -> None:
    def fail(record: bytes) -> bytes:
        raise ZeroDivisionError(record)

    scenario, _ = finite("rebalance", 1, 2)
    broken = replace(scenario.vertices[1], operator=map_records(fail))
    with pytest.raises(ZeroDivisionError):
        emulate(replace(scenario, vertices=(scenario.vertices[0], broken)))


def test_too_little_network_memory_says_what_is_needed() -> None:
    config = NetworkConfig(network_memory_max_bytes=4 * 32768)
    with pytest.raises(
        InsufficientBuffers, match=r"Insufficient number of network buffers.*taskmanager\.memory\.network"
    ):
        emulate(saturated(config=config))


def test_a_checkpoint_aborted_by_the_end_of_a_channel_has_failed() -> None:
    # A source ends between the trigger of a checkpoint and its arrival there; without checkpoints after
    # finished tasks its end aborts the checkpoint that the other source has begun, and no other is triggered.
    config = NetworkConfig(checkpoint_interval_s=0.01, checkpoints_after_tasks_finish=False)
    short = SourceObject(source=CollectionSource([[bytes(1000)] * 30]), rates=(50.0,))
    endless = GeneratorSpec(record_bytes=1000, rates=(50.0,))
    scenario = Scenario(
        name="abort",
        duration_s=2.0,
        config=config,
        vertices=(
            Vertex(name="short", source=short),
            Vertex(name="endless", source=endless),
            Vertex(name="join"),
            Vertex(name="sink"),
        ),
        edges=(
            Edge(source="short", target="join"),
            Edge(source="endless", target="join"),
            Edge(source="join", target="sink"),
        ),
    )
    runs = [emulate(scenario, seed=seed).checkpoints for seed in range(1, 7)]
    assert {checkpoint.status for run in runs for checkpoint in run[:-1]} == {"COMPLETED"}
    # Whether the end hits a trigger on its way depends on the seed.
    assert {run[-1].status for run in runs} == {"COMPLETED", "FAILED"}


def draining(ship: str, producers: tuple[int, ...], interval_s: float) -> Scenario:
    """Sources of a given number of records, a forwarding stage and a slow sink: most of it is a drain."""
    records = [[bytes(100)] * count for count in producers]
    parallelism = len(producers)
    return Scenario(
        name="draining",
        duration_s=60.0,
        config=NetworkConfig(checkpoint_interval_s=interval_s, segment_bytes=4096),
        vertices=(
            Vertex(
                name="source", parallelism=parallelism, source=SourceObject(source=CollectionSource(records))
            ),
            Vertex(name="stage1", parallelism=parallelism),
            Vertex(name="stage2", parallelism=parallelism, service=((0.0, 0.005),)),
        ),
        edges=(
            Edge(source="source", target="stage1", ship=ship),
            Edge(source="stage1", target="stage2", ship=ship),
        ),
    )


@pytest.mark.parametrize("ship", ["forward", "rebalance"])
def test_checkpoints_go_on_while_a_job_drains(ship: str) -> None:
    result = emulate(draining(ship, (2400, 2400), 0.5))
    assert 12.0 < result.emulated_seconds < 13.0
    assert result.work.records == 9600
    statuses = [checkpoint.status for checkpoint in result.checkpoints]
    # They are slow, since each barrier waits for what is queued, but there is always one under way.
    assert statuses.count("COMPLETED") >= 2
    assert "FAILED" not in statuses[:-1]  # the last one may find the tasks ending


def test_a_subtask_whose_part_has_ended_holds_no_checkpoint_up() -> None:
    result = emulate(draining("forward", (20, 2400), 0.5))
    assert result.work.records == 4840
    durations = [checkpoint.duration_ms for checkpoint in result.checkpoints if checkpoint.duration_ms]
    # The first chain ends after 0.1 s; the rest is the other's own drain.
    assert len(durations) >= 2
    ended = [checkpoint.vertices[2].start_delay_ms[0] for checkpoint in result.checkpoints[1:]]
    assert set(ended) == {None}


def test_mail_to_a_slow_source_leaves_no_timers_behind() -> None:
    config = NetworkConfig(checkpoint_interval_s=0.05)
    scenario = saturated(
        duration_s=50.0,
        config=config,
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013, rates=(0.001,))),
            Vertex(name="stage1", parallelism=2),
        ),
    )
    longest = 0

    async def main() -> None:
        agenda = Agenda()

        def look() -> None:
            nonlocal longest
            longest = max(longest, len(agenda))
            agenda.after(0.5, look)

        agenda.at(0.0, look)
        await Job(scenario, agenda).run()

    trio.run(main)
    assert longest < 60


def test_a_job_that_cannot_be_built_closes_its_readers() -> None:
    closed: list[int] = []

    class Closing(CollectionSource):
        def open(self, subtask: int, parallelism: int) -> CollectionReader:
            reader = super().open(subtask, parallelism)

            class Reader:
                read = reader.read

                def close(self) -> None:
                    closed.append(subtask)

            return Reader()  # type: ignore[return-value]

    scenario = saturated(config=NetworkConfig(network_memory_max_bytes=4 * 32768))
    source = replace(scenario.vertices[0], source=SourceObject(source=Closing([[b"a"], [b"b"]])))
    with pytest.raises(InsufficientBuffers):
        emulate(replace(scenario, vertices=(source, scenario.vertices[1])))
    assert sorted(closed) == [0, 1]


def test_block_functions_are_never_given_an_empty_block() -> None:
    seen: list[int] = []

    def double(block: RecordBlock) -> RecordBlock:
        seen.append(len(block))
        return RecordBlock.from_matrix(block.data.reshape(-1, block.stride)[:, 4:])

    out: list[bytes] = []
    long = [bytes([number]) * 100_000 for number in range(8)]  # each longer than three buffers
    scenario = Scenario(
        name="blocks",
        duration_s=60.0,
        vertices=(
            Vertex(name="source", source=SourceObject(source=CollectionSource([long]))),
            Vertex(name="blocks", operator=map_blocks(double)),
            Vertex(name="sink", operator=sink(out.append)),
        ),
        edges=(Edge(source="source", target="blocks"), Edge(source="blocks", target="sink")),
    )
    run(scenario)
    assert out == long
    assert sum(seen) == 8
    assert min(seen) >= 1


def test_a_record_longer_than_the_pool_is_flushed_whole_with_a_buffer_timeout_of_zero() -> None:
    # 6 segments of 32 KiB in all: a record of 300 KB is written as the consumer frees them.
    arrived: list[float] = []
    agenda = Agenda()
    long = SourceObject(source=CollectionSource([[bytes(300_000)] * 3]), rates=(1.0,))
    config = NetworkConfig(
        buffer_timeout_interval_s=0.0,
        network_memory_max_bytes=6 * 32768,
        exclusive_buffers_per_channel=1,
        floating_buffers_per_gate=2,
        max_overdraft_buffers_per_gate=0,
    )
    scenario = Scenario(
        name="long records",
        duration_s=10.0,
        config=config,
        vertices=(
            Vertex(name="source", source=long),
            Vertex(name="sink", operator=sink(lambda record: arrived.append(agenda.now))),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    trio.run(Job(scenario, agenda).run)
    assert arrived == [pytest.approx(due, abs=0.1) for due in (0.0, 1.0, 2.0)]


def test_who_looks_on_is_told_how_far_a_run_is_from_its_beginning_and_changes_nothing() -> None:
    scenario = Scenario(
        name="job",
        duration_s=3.0,
        vertices=(Vertex(name="a", source=GeneratorSpec(record_bytes=100)), Vertex(name="b")),
        edges=(Edge(source="a", target="b"),),
    )
    told: list[float] = []
    seen = emulate(scenario, meanwhile=told.append)
    assert told[0] == 0.0  # when the job is built, and before anything has happened
    assert told == sorted(told)
    assert told[-1] <= 3.0
    assert seen.steady == emulate(scenario).steady
