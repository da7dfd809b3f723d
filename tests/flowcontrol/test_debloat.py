"""Throughput and buffer size: Flink's figures, the announcement rules, and bounds that always hold."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcontrol import BufferDebloater, BufferSizeEMA, ThroughputCalculator
from tests.vectors import FOLDER, flink_vectors

HISTORICAL = {
    "debloat_throughput_ema_historical": (
        "Flink 1.14.x averages the throughput with this class, and sizes buffers by the average; "
        "later versions, which the presets are of, average the buffer size"
    ),
}
"""Files of figures that hold for no version with a preset."""


EMA = flink_vectors("debloat_buffer_size_ema")
THROUGHPUT = flink_vectors("debloat_throughput_calculator")


def test_every_file_about_debloating_is_played_or_historical() -> None:
    files = {path.stem for path in FOLDER.glob("debloat_*.json")}

    assert files == {"debloat_buffer_size_ema", "debloat_throughput_calculator"} | set(HISTORICAL)


@pytest.mark.parametrize("name", HISTORICAL)
def test_historical_figures_call_themselves_so(name: str) -> None:
    notes = json.loads((FOLDER / f"{name}.json").read_text())["notes"]

    assert notes[0].startswith("HISTORICAL")


@pytest.mark.parametrize("name", EMA)
def test_flinks_buffer_sizes(name: str) -> None:
    scenario = EMA[name]
    given = scenario["given"]
    ema = BufferSizeEMA(given["start"], given["max"], given["min"], given["samples"])
    if repeat := scenario.get("repeat"):
        for _ in range(repeat["times"]):
            ema.calculate(repeat["total_bytes"], repeat["buffers"])

    for call in scenario["calls"]:
        match call["expect"]:
            case {"size": size}:
                assert ema.calculate(call["total_bytes"], call["buffers"]) == size
            case {"size_greater_than": size}:
                assert ema.calculate(call["total_bytes"], call["buffers"]) > size
            case {"error": "illegal_argument"}:
                with pytest.raises(ValueError, match="must"):
                    ema.calculate(call["total_bytes"], call["buffers"])
            case other:
                pytest.fail(f"unknown expectation {other}")


@pytest.mark.parametrize("start_ms", [0, 17, 1_700_000_000_123])
@pytest.mark.parametrize("name", THROUGHPUT)
def test_flinks_throughputs(name: str, start_ms: int) -> None:
    calculator, now_ms = ThroughputCalculator(), start_ms
    for operation, *argument in THROUGHPUT[name]["ops"]:
        now = now_ms / 1000
        match operation, argument:
            case "data", [size]:
                calculator.add(size, now)
            case "advance_ms", [duration]:
                now_ms += duration
            case "pause", []:
                calculator.pause(now)
            case "resume", []:
                calculator.resume(now)
            case "calculate", [{"expect": {"bytes_per_second": expected}}]:
                assert calculator.calculate(now) == expected
            case "calculate", [{}]:
                calculator.calculate(now)
            case other:
                pytest.fail(f"unknown operation {other}")

    if expect := THROUGHPUT[name].get("expect"):
        assert calculator.calculate(now_ms / 1000) == expect["bytes_per_second"]


@example(0, 29)
@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_whole_milliseconds_survive_as_seconds(start_ms: int, duration_ms: int) -> None:
    calculator = ThroughputCalculator()
    calculator.add(duration_ms * 1000, start_ms / 1000)

    assert calculator.calculate((start_ms + duration_ms) / 1000) == pytest.approx(1_000_000, abs=1)


def test_parts_of_a_millisecond_do_not_count() -> None:
    calculator = ThroughputCalculator()
    calculator.add(500, now=1.0002)

    assert calculator.calculate(now=1.0009) == 0
    calculator.add(500, now=1.0010)
    assert calculator.calculate(now=1.0011) == 500_000


def test_bytes_of_a_calculation_without_elapsed_time_are_lost_as_in_flink() -> None:
    calculator = ThroughputCalculator()
    calculator.add(500, now=1.0)
    calculator.calculate(now=1.0)

    assert calculator.calculate(now=1.001) == 0


def test_pausing_twice_counts_once() -> None:
    calculator = ThroughputCalculator()
    calculator.add(100, now=0.0)
    calculator.pause(now=0.010)
    calculator.pause(now=0.020)

    assert calculator.calculate(now=0.030) == 10_000


def test_wrong_throughput_arguments_are_refused() -> None:
    calculator = ThroughputCalculator()
    with pytest.raises(ValueError, match="negative"):
        calculator.add(-1, now=0.0)

    calculator.add(1, now=2.0)
    with pytest.raises(ValueError, match="backwards"):
        calculator.calculate(now=1.0)


def make_debloater(**changes: Any) -> BufferDebloater:
    settings = {
        "target_s": 1.0,
        "max_size": 32768,
        "min_size": 256,
        "starting_size": 1024,
        "threshold_percent": 25,
        "samples": 20,
    }
    return BufferDebloater(**(settings | changes))


def test_the_largest_and_the_smallest_size_are_always_announced_but_once() -> None:
    debloater = make_debloater(samples=1, starting_size=30000)

    # From 30000 the largest is less than a quarter away.
    assert debloater.recalculate(10**9, 1) == 32768
    assert debloater.recalculate(10**9, 1) is None
    assert debloater.recalculate(300, 1) == 300
    # From 300 the smallest is less than a quarter away.
    assert debloater.recalculate(0, 5) == 256
    assert debloater.recalculate(0, 5) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"target_s": 0.0},
        {"target_s": -1.0},
        {"min_size": 0},
        {"min_size": 4096, "max_size": 2048},
        {"starting_size": 0},
        {"threshold_percent": -1},
        {"samples": 0},
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        make_debloater(**changes)


def test_a_target_of_a_millisecond_is_the_least() -> None:
    assert make_debloater(target_s=0.001).last_announced > 0


def test_a_negative_throughput_is_refused() -> None:
    debloater = make_debloater()

    with pytest.raises(ValueError, match="throughput"):
        debloater.recalculate(-1, 1)
    assert debloater.last_announced == 1024


measurements = st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 500)), max_size=50)


@given(
    steps=measurements,
    min_size=st.integers(1, 4096),
    extra=st.integers(0, 65536),
    starting_size=st.integers(1, 65536),
    samples=st.integers(1, 50),
    threshold=st.integers(0, 100),
)
def test_sizes_stay_within_bounds_and_grow_at_most_by_alpha(
    steps: list[tuple[int, int]],
    min_size: int,
    extra: int,
    starting_size: int,
    samples: int,
    threshold: int,
) -> None:
    max_size = min_size + extra
    starting_size = min(max(starting_size, min_size), max_size)
    debloater = BufferDebloater(1.0, max_size, min_size, starting_size, threshold, samples)
    ema = BufferSizeEMA(starting_size, max_size, min_size, samples)
    size, announced = starting_size, starting_size
    for throughput, buffers in steps:
        news = debloater.recalculate(throughput, buffers)
        before, size = size, ema.calculate(throughput, max(1, buffers))

        assert min_size <= size <= max_size
        # Half a byte of rounding on either side.
        assert size <= (before + 0.5) * (1 + ema.alpha) + 0.5
        assert size >= (before - 0.5) * (1 - ema.alpha) - 0.5
        assert news in (None, size)
        if news is not None:
            assert news != announced
            announced = news
        assert debloater.last_announced == announced


@given(
    throughput=st.integers(10_000, 10**8),
    buffers=st.integers(1, 200),
    starting_size=st.integers(256, 32768),
)
def test_a_steady_load_settles_where_what_waits_takes_the_target_time(
    throughput: int, buffers: int, starting_size: int
) -> None:
    debloater = make_debloater(starting_size=starting_size, threshold_percent=0)
    for _ in range(300):
        debloater.recalculate(throughput, buffers)

    ideal = min(max(throughput / buffers, 256), 32768)
    assert debloater.last_announced == pytest.approx(ideal, abs=1)
