"""Micro-benchmarks: the harness and its yardstick, transports, emulations, and each case once."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from benches.cases.test_checkpoints import MODES, multi_input, single_input, slices
from benches.cases.test_network import THROUGHPUTS, Arrivals, scaled, seconds_emulated
from benches.conftest import transport_named
from benches.credit_transport import CreditTransport, PlainSockets
from benches.exchange import Plan, Writers, between_processes, read_all, within_process
from benches.harness import (
    MS_PER_OP,
    OPS_PER_MS,
    Iterate,
    Measure,
    Unit,
    Yardstick,
    seconds_an_operation,
)
from benches.transport import BenchTransport, Shape, fresh_certificate
from buffers import RecordBlock
from netstack import Agenda, CheckpointResult, check_scenario

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


class Rounds:
    """The part of pytest-benchmark's fixture that the harness uses; keeps the time of each round."""

    name = "case"
    disabled = False

    def __init__(self) -> None:
        self.extra_info: dict[str, object] = {}
        self.times: list[float] = []

    def pedantic(
        self, target: Callable[[], None], *, setup: Callable[[], None], rounds: int, warmup_rounds: int
    ) -> None:
        for _ in range(warmup_rounds + rounds):
            setup()
            begun = seconds_an_operation()
            target()
            self.times.append(seconds_an_operation() - begun)


@pytest.mark.parametrize(("unit", "score", "ratio"), [(OPS_PER_MS, 1.0, 8.0), (MS_PER_OP, 1.0, 1 / 8)])
def test_a_yardstick_is_timed_after_each_round_and_the_ratio_is_the_median(
    unit: Unit, score: float, ratio: float
) -> None:
    rounds, order, lines = Rounds(), list[str](), list[str]()
    work, beside = iter([9.0, 0.25, 0.5, 1.0]), iter([9.0, 1.0, 4.0, 16.0])  # ratios 4, 8, 16

    def iterate() -> float:
        order.append("work")
        return next(work)

    def compared() -> float:
        order.append("yardstick")
        return next(beside)

    measure = Measure(rounds, rounds=3, scale=1.0, report=lines.append)  # type: ignore[arg-type]
    measure.iterations(
        iterate, unit, operations=500, yardstick=Yardstick("plain sockets", compared), warmups=1
    )
    assert order == ["work", "yardstick"] * 4
    assert rounds.times == [9 / 500, 0.25 / 500, 0.5 / 500, 1 / 500]
    assert rounds.extra_info == {
        "score": score,
        "unit": unit.name,
        "yardstick": "plain sockets",
        "ratio": ratio,
    }
    assert lines == [f"case: 1 {unit.name}, {ratio:.4g} times plain sockets"]


def test_steps_are_repeated_as_often_as_their_yardstick() -> None:
    rounds, steps = Rounds(), list[int]()
    rounds.disabled = True  # so that a round is one step
    measure = Measure(rounds, rounds=2, scale=1.0)  # type: ignore[arg-type]
    measure.steps(lambda: steps.append(1), operations=10, copied_bytes=100)
    assert len(steps) == 3
    assert (rounds.extra_info["yardstick"], rounds.extra_info["unit"]) == ("memory copy", "us/op")


def run_cases(*options: str) -> tuple[int, str]:
    """Run benchmarks in a process of their own; return the exit status and the output.

    Within a process of pytest-xdist, which a variable tells, pytest-benchmark measures nothing.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "benches", "-q", "-p", "no:cacheprovider", *options],
        cwd=ROOT,
        env=variables | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_cases_run_once() -> None:
    quick = "frame or barrier or credit or pool or row or 1013 or longs or synchronous or Latency1to1"
    emulated = "emulated and (MultiInput and UNALIGNED or Skewed or Broadcast)"
    chosen = f"{quick} or {emulated} or 100ms and not 1000 and not SSL"
    status, out = run_cases("--benchmark-disable", "--scale=0.1", "-k", chosen)
    assert status == 0, out


def test_emulated_times_are_saved_and_compared(tmp_path: Path) -> None:
    saving = [f"--benchmark-storage={tmp_path}", "--benchmark-min-rounds=1", "-k", "Latency1to1 and emulated"]
    status, out = run_cases(*saving, "--benchmark-save=before")
    assert (status, "ms/op" in out) == (0, True), out
    shorter = ["--scale=5", "--benchmark-compare", "--benchmark-compare-fail=mean:0%"]
    status, out = run_cases(*saving, *shorter)
    assert (status, "Performance has regressed" in out) == (1, True), out


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
    """Return the calls of `write` in some iterations of virtual time, and the seconds of the last."""
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
    with within_process(plan(TooMany)) as iterate, pytest.raises(RuntimeError) as raised:
        iterate()
    assert str(raised.value) == "too many: 13 records have arrived, but 12 were written"


def test_what_a_transport_raises_comes_out() -> None:
    with within_process(plan(Broken)) as iterate, pytest.raises(OSError, match="the cable is cut"):
        iterate()


def test_a_transport_of_one_process_is_not_tried_between_two() -> None:
    with pytest.raises(RuntimeError) as raised, between_processes(plan()):
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


def test_a_parameter_says_channels_timeout_and_encryption() -> None:
    plain, encrypted = THROUGHPUTS["1000,1ms"], THROUGHPUTS["100,100ms,SSL"]
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
    with pytest.raises(RuntimeError, match=r"no checkpoint was triggered from 1\.0 to 1\.2 s"):
        next(means)


def test_a_checkpoint_that_fails_ends_the_benchmark() -> None:
    failed = CheckpointResult(id=1, t=0.0, status="FAILED", failure="CHECKPOINT_EXPIRED")
    with pytest.raises(RuntimeError, match="a checkpoint has failed: CHECKPOINT_EXPIRED"):
        next(slices([failed], 0.0, 1.0))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("x", "it must be MODULE:CLASS"),
        ("no.such:T", "no.such cannot be imported: No module"),
        ("os:path", "path must be a subclass of BenchTransport"),
    ],
)
def test_a_transport_that_is_none_is_refused(name: str, problem: str) -> None:
    with pytest.raises(pytest.UsageError, match=problem):
        transport_named(name)
