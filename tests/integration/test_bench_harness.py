"""The harness: what a transport is asked for, what comes of its answers, in memory and in virtual time."""

import ast
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from buffers import RecordBlock
from integration import BenchTransport, Effort, Shape
from integration.benchmarks.bench_case import MS_PER_OP, OPS_PER_MS, Case, Course, Point, Trial, Way
from integration.benchmarks.bench_errors import BenchmarkError
from integration.benchmarks.catalogue_of_cases import CASES, FLINK_CASES, chosen_points
from integration.benchmarks.certificates import fresh_certificate
from integration.benchmarks.checkpoint_cases import MODES, multi_input, single_input, slices
from integration.benchmarks.credit_transport import CreditTransport
from integration.benchmarks.exchange_runs import (
    Iterate,
    Plan,
    Writers,
    between_processes,
    read_all,
    within_process,
)
from integration.benchmarks.forks import run_here
from integration.benchmarks.network_cases import parse, scaled
from integration.benchmarks.network_emulation import Arrivals, seconds_emulated
from integration.benchmarks.plain_sockets import PlainSockets
from netstack import Agenda, CheckpointResult, ScenarioError, check_scenario

ROOT = Path(__file__).resolve().parents[2]


class Kept(BenchTransport):
    """Keeps what is written, and lets it arrive after its shape's time, all at once."""

    name = "kept"
    between_processes = False
    surplus = 0

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        super().__init__(shape, nursery)
        self.written: list[tuple[int, list[int]]] = []
        self.closed = 0
        self._news = trio.Event()
        self._arrived = 0

    async def listen(self) -> str:
        return "here"

    async def connect(self, address: str) -> None:
        assert address == "here"

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        self.written.append((writer, list(channels)))
        self._arrived += len(block) * (self.shape.channels if self.shape.broadcast else 1)
        self._news.set()
        await trio.lowlevel.checkpoint()

    async def read(self) -> int:
        await self._news.wait()
        await trio.sleep(self.shape.flush_s)
        arrived, self._arrived, self._news = self._arrived, 0, trio.Event()
        return arrived + self.surplus

    async def close(self) -> None:
        self.closed += 1


class TooMany(Kept):
    name = "too many"
    surplus = 1


class Broken(Kept):
    name = "broken"

    async def read(self) -> int:
        raise OSError("the cable is cut")


def plan(
    transport: type[BenchTransport] = Kept, records: int = 12, skewed: bool = False, **shape: object
) -> Plan:
    settings: dict[str, Any] = {"writers": 2, "channels": 3, "flush_s": 0.001, **shape}
    return Plan(transport=transport, shape=Shape(**settings), records=records, skewed=skewed)


def written(planned: Plan, rounds: int = 1) -> tuple[list[tuple[int, list[int]]], float]:
    """What a transport is asked to write in some iterations of virtual time, and how long the last took."""
    written, took = [], 0.0

    async def main() -> None:
        nonlocal took
        writers = Writers(planned)
        async with trio.open_nursery() as nursery:
            transport = Kept(planned.shape, nursery)
            for _ in range(rounds):
                begun = trio.current_time()
                async with trio.open_nursery() as reading:
                    reading.start_soon(read_all, transport, planned.arrivals)
                    await writers.write_all(transport)
                took = trio.current_time() - begun
            written.extend(transport.written)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return written, took


def test_records_are_dealt_out_in_turns_on_and_on() -> None:
    calls, took = written(plan(records=8), rounds=2)
    assert sorted(calls) == [
        (0, [0, 1, 2, 0]),
        (0, [1, 2, 0, 1]),
        (1, [0, 1, 2, 0]),
        (1, [1, 2, 0, 1]),
    ]
    assert took == pytest.approx(0.001)


def test_skewed_records_go_to_each_channel_once_and_then_to_the_first() -> None:
    calls, _ = written(plan(records=8, skewed=True, writers=1), rounds=2)
    assert calls == [(0, [0, 1, 2, 0, 0, 0, 0, 0]), (0, [0] * 8)]


def test_a_broadcast_names_no_channel_and_arrives_in_all() -> None:
    planned = plan(records=4, broadcast=True)
    calls, _ = written(planned)
    assert sorted(calls) == [(0, []), (1, [])]
    assert planned.arrivals == 12


def test_a_block_is_not_longer_than_blocks_are() -> None:
    calls, _ = written(plan(records=2 * 5000))
    assert sorted((writer, len(channels)) for writer, channels in calls) == [
        (0, 904),
        (0, 4096),
        (1, 904),
        (1, 4096),
    ]


def test_within_a_process_an_iteration_ends_with_the_last_record() -> None:
    with within_process(plan()) as iterate:
        assert iterate() > 0
        assert iterate() > 0


def test_more_records_than_were_written_are_an_error() -> None:
    with within_process(plan(TooMany)) as iterate, pytest.raises(BenchmarkError) as raised:
        iterate()
    assert str(raised.value) == "too many: 13 records have arrived of 12"


def test_what_a_transport_raises_comes_out() -> None:
    with within_process(plan(Broken)) as iterate, pytest.raises(OSError, match="the cable is cut"):
        iterate()


def test_a_transport_of_one_process_is_not_tried_between_two() -> None:
    with pytest.raises(BenchmarkError) as raised, between_processes(plan()):
        pass
    assert str(raised.value) == "kept: both its ends have to be in one process"


@pytest.mark.parametrize("run", [within_process, between_processes])
@pytest.mark.parametrize("transport", [CreditTransport, PlainSockets])
def test_ours_and_plain_sockets_move_all_records_with_tls(
    run: Callable[[Plan], AbstractContextManager[Iterate]], transport: type[BenchTransport]
) -> None:
    with run(plan(transport, records=20_000, channels=50, certificate=fresh_certificate())) as iterate:
        assert iterate() > 0
        assert iterate() > 0


def test_a_broadcast_arrives_at_every_reader_of_ours() -> None:
    with within_process(plan(CreditTransport, records=600, broadcast=True)) as iterate:
        assert iterate() > 0


def case(times: list[float], **settings: object) -> Case:
    """A case whose iterations take these times, and whose yardstick is always done in a second."""
    left = iter(times)

    class Opened:
        def __enter__(self) -> Trial:
            return Trial(iterate=lambda: next(left), operations=500, yardstick=lambda: 1.0)

        def __exit__(self, *_: object) -> None:
            assert list(left) == []

    course = Course(open=lambda opening: Opened(), yardstick="a second")  # type: ignore[arg-type,return-value]
    absent = {Way.EMULATED: "no", Way.TCP: "no"}
    unit = settings.pop("unit", OPS_PER_MS)
    return Case(name="case", what="it", unit=unit, courses={Way.PROCESS: course}, absent=absent)  # type: ignore[arg-type]


def test_warm_ups_do_not_count() -> None:
    point = case([9.0, 9.0, 0.5, 0.25]).points()[0]
    done: list[int] = []
    result = run_here(point, Effort(warmups=2, repetitions=2), tell=done.append)
    assert result.scores == [[1.0, 2.0]]
    assert result.yardstick_scores == [[0.5, 0.5]]
    assert (result.interval.mean, result.ratio, result.extremes) == (1.5, 3.0, (1.0, 2.0))
    assert done == [1, 2, 3, 4]


def test_a_time_is_stated_for_each_operation() -> None:
    point = case([0.5], unit=MS_PER_OP).points()[0]
    assert run_here(point, Effort(warmups=0, repetitions=1)).scores == [[1.0]]


def test_a_case_says_of_each_way_how_or_why_not() -> None:
    with pytest.raises(ValueError, match="each way is run, or has a reason"):
        Case(name="case", what="it", unit=OPS_PER_MS, courses={}, absent={Way.TCP: "no"})


def test_flinks_cases_have_its_names_and_parameters() -> None:
    names = {case.name: case.parameters for case in FLINK_CASES}
    assert list(names) == [
        "networkThroughput",
        "networkLatency1to1",
        "networkSkewedThroughput",
        "networkBroadcastThroughput",
        "checkpointSingleInput",
        "checkpointMultiInput",
    ]
    flinks = {"100,100ms", "100,100ms,SSL", "1000,1ms", "1000,100ms", "1000,100ms,SSL"}
    assert flinks < set(names["networkThroughput"])
    assert {"ALIGNED", "UNALIGNED", "UNALIGNED_1"} < set(names["checkpointSingleInput"])


def test_every_case_is_a_function_of_pytest_benchmark() -> None:
    functions = {
        node.name.removeprefix("test_")
        for path in (ROOT / "benches").glob("test_*_cases.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert functions == set(CASES)


def test_a_parameter_says_channels_timeout_and_encryption() -> None:
    plain, encrypted = parse("1000,1ms"), parse("100,100ms,SSL")
    assert (plain.shape.channels, plain.shape.flush_s, plain.encrypted) == (1000, 0.001, False)
    assert (encrypted.shape.channels, encrypted.shape.flush_s, encrypted.encrypted) == (100, 0.1, True)
    assert plain.shape.writers == 4


def test_all_writers_have_as_many_records_and_at_least_one() -> None:
    assert [scaled(100, scale, 4) for scale in (1.0, 0.5, 0.29, 0.001)] == [100, 48, 28, 4]


@pytest.mark.parametrize("settings", [{}, {"broadcast": True}, {"skewed": True}])
def test_the_same_seed_gives_the_same_emulated_time(settings: dict[str, bool]) -> None:
    skewed = settings.get("skewed", False)
    shape = Shape(writers=2, channels=3, flush_s=0.01, broadcast=settings.get("broadcast", False))
    times = [seconds_emulated(shape, 600, skewed, seed) for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]
    assert 0 < times[0] < 0.1


def test_all_readers_together_have_to_read_everything() -> None:
    arrivals = Arrivals(Agenda(), 3)
    arrivals.process(RecordBlock.from_payloads([b"1", b"2"]))
    assert arrivals.last_at is None
    arrivals.process(RecordBlock.from_payloads([b"3"]))
    assert arrivals.last_at == 0.0


@pytest.mark.parametrize("job", [single_input, multi_input])
@pytest.mark.parametrize("mode", MODES)
def test_jobs_of_checkpoint_cases_make_sense(job: Callable[..., object], mode: str) -> None:
    check_scenario(job(MODES[mode], 10.0))  # type: ignore[arg-type]


def test_slices_have_the_checkpoints_that_were_triggered_in_them() -> None:
    durations = [(0.25, 5.0), (0.5, 10.0), (0.625, 20.0), (0.75, 40.0), (0.875, None)]
    checkpoints = [
        CheckpointResult(id=number, t=t, duration_ms=duration)
        for number, (t, duration) in enumerate(durations)
    ]
    means = slices(checkpoints, 0.5, 0.25)
    assert [next(means), next(means)] == pytest.approx([0.015, 0.04])
    with pytest.raises(BenchmarkError, match=r"no checkpoint was triggered from 1\.0 to 1\.2 s"):
        next(means)


def test_a_checkpoint_that_fails_ends_the_benchmark() -> None:
    failed = CheckpointResult(id=1, t=0.0, status="FAILED", failure="CHECKPOINT_EXPIRED")
    with pytest.raises(BenchmarkError, match="a checkpoint has failed: CHECKPOINT_EXPIRED"):
        next(slices([failed], 0.0, 1.0))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            (["networkThroughputs"],),
            "there is no case 'networkThroughputs'; did you mean 'networkThroughput'?",
        ),
        (
            (["networkLatency1to1"], ["100,1ms"]),
            "--parameter: no case has '100,1ms'; there is none",
        ),
        (([], [], ["udp"]), "--way is 'udp'; it must be emulated, process, tcp"),
        (
            (["creditRoundTrip"], [], ["tcp"]),
            "creditRoundTrip is not run tcp: it is work within one process",
        ),
        (
            (["networkThroughput"], ["100,1ms,SSL"], ["emulated"]),
            "networkThroughput 100,1ms,SSL is not run emulated: the model has no cost of encryption",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_with_a_line(arguments: tuple[list[str], ...], line: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        chosen_points(*arguments)
    assert raised.value.problems == (f"netstack bench: {line}",)


def test_points_are_told_apart_by_parameter_and_way() -> None:
    points = [point.name for point in chosen_points(["networkThroughput"], ["100,1ms", "100,1ms,SSL"])]
    assert points == [
        "networkThroughput 100,1ms emulated",
        "networkThroughput 100,1ms process",
        "networkThroughput 100,1ms tcp",
        "networkThroughput 100,1ms,SSL process",
        "networkThroughput 100,1ms,SSL tcp",
    ]
    assert isinstance(chosen_points(["recovery"])[0], Point)
