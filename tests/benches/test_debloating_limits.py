"""The limits of debloating: formulas hold in emulations, and each mechanism runs each job."""

from __future__ import annotations

import pytest

from benches.studies.debloating_limits import (
    COMPARED,
    LARGE_BYTES,
    LIMIT_CASES,
    MECHANISMS,
    SMALL_BYTES,
    Asked,
    MixedSource,
    buffers_of,
    bytes_of_buffer,
    bytes_per_s,
    delay_ms,
    floor_ms,
    in_use,
    run,
    saturated,
    smallest_partitions,
)
from netstack import check_scenario


def test_buffers_in_use_are_those_of_the_pools_less_what_is_being_written() -> None:
    assert in_use(2) == (2 * 2 + 8) + (2 * 2 + 8) - 1
    assert in_use(2, 0, 1) == 1 + 3 - 1  # a partition has one more than subpartitions at least
    assert in_use(32) == 2 * (32 * 2 + 8) - 16


def test_a_buffer_holds_the_record_that_begins_it() -> None:
    assert bytes_of_buffer(996, 5000.0) == 5000
    assert bytes_of_buffer(9996, 5000.0) == 10_000
    assert bytes_of_buffer(99_996, 5000.0) == 25_000
    assert bytes_of_buffer(99_996, 32768.0) == 32768
    assert (buffers_of(32764), buffers_of(32765)) == (1, 2)


@pytest.mark.parametrize(("parallelism", "rate"), [(2, 20e3), (4, 20e3)])
def test_no_target_brings_checkpoints_below_the_floor(parallelism: int, rate: float) -> None:
    found = run(Asked(saturated(parallelism, rate, 100, 0.001), "aligned, debloating"))
    assert found.buffer_bytes == 256
    assert found.end_to_end_ms == pytest.approx(floor_ms(parallelism, rate), rel=0.1)
    assert bytes_per_s(found, parallelism, 100) == pytest.approx(rate, rel=0.02)


@pytest.mark.parametrize("record_bytes", [16_000, 64_000])
def test_no_target_brings_the_delay_below_what_large_records_need(record_bytes: int) -> None:
    found = run(Asked(saturated(2, 1e6, record_bytes, 0.1, measured_s=20.0), "aligned, debloating"))
    assert found.delay_ms == pytest.approx(delay_ms(2, record_bytes, 1e6, 256), rel=0.1)


@pytest.mark.interpreted
def test_each_mechanism_can_run_each_job() -> None:
    assert set(COMPARED.values()) <= set(MECHANISMS)
    for case in LIMIT_CASES:
        check_scenario(smallest_partitions(case.scenario))


def test_one_record_in_ten_is_large() -> None:
    reader = MixedSource().open(0, 1)
    sizes = [len(payload) for _ in range(3) for payload in reader.read(600).payloads()]
    assert set(sizes) == {SMALL_BYTES, LARGE_BYTES}
    assert 0.07 < sizes.count(LARGE_BYTES) / len(sizes) < 0.13
    reader.seek(3)
    assert [len(payload) for payload in reader.read(5).payloads()] == sizes[3:8]
