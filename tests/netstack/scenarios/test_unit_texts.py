from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    QuantityError,
    format_duration,
    format_size,
    parse_duration,
    parse_flink_duration,
    parse_flink_size,
    parse_rate,
)
from netstack.scenarios.unit_texts import format_rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 ms", 0.005),
        ("100ms", 0.1),
        ("0.8 us", 8e-7),
        ("70 us", 7e-5),
        ("1 min", 60.0),
        ("2 h", 7200.0),
        ("1 s", 1.0),
        (" 3 µs ", 3e-6),
        ("5 MS", 0.005),
    ],
)
def test_durations_are_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value",
    [
        5,
        5.0,
        "5",
        "ms",
        "-5 ms",
        "5 parsec",
        "5 ms 3",
        "",
        True,
        None,
        ["5 ms"],
        "9" * 400 + " s",
        "9" * 5000 + " s",
    ],
)
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(QuantityError):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "seconds"), [("1 s", 1.0), ("100ms", 0.1), ("1 min", 60.0), (200, 0.2), ("200", 0.2), (0, 0.0)]
)
def test_flink_reads_a_bare_number_as_milliseconds(value, seconds):
    assert parse_flink_duration(value) == seconds


@pytest.mark.parametrize("value", ["1.5 s", "s", "1 fortnight", True, 1.5, None, f"{1 << 63} ms", 1 << 63])
def test_what_flink_does_not_read_as_a_duration_is_refused(value):
    with pytest.raises(QuantityError):
        parse_flink_duration(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("32 kb", 32768),
        ("32kb", 32768),
        ("64 mb", 64 << 20),
        ("1g", 1 << 30),
        ("256", 256),
        (256, 256),
        ("7 b", 7),
    ],
)
def test_flink_counts_kilobytes_in_1024s(value, size):
    assert parse_flink_size(value) == size


@pytest.mark.parametrize("value", ["32.5 kb", "32 kib", "kb", False, None, f"{1 << 63} b", "9" * 5000])
def test_what_flink_does_not_read_as_a_size_is_refused(value):
    with pytest.raises(QuantityError):
        parse_flink_size(value)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10 gbit/s", 1.25e9),
        ("2 GB/s", 2e9),
        ("2 gb/s", 2e9),
        ("1 MiB/s", 1048576.0),
        ("8 bit/s", 1.0),
        ("100 B/s", 100.0),
    ],
)
def test_rates_are_read_in_bytes_per_second(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["10 gbit", "10", 10, "0 B/s", "10 furlong/s", "10 MB/min", "9" * 400 + " B/s"]
)
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(QuantityError):
        parse_rate(text)


def test_a_rate_that_may_be_bits_or_bytes_is_refused_with_both_spellings():
    with pytest.raises(QuantityError, match=r" does not say whether bits or bytes are meant.*gbit/s.*GB/s"):
        parse_rate("10 Gb/s")


@given(st.floats(0, 1e6, allow_nan=False))
def test_a_duration_survives_the_way_to_text_and_back(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 1 << 50))
def test_a_size_survives_the_way_to_text_and_back(size):
    assert parse_flink_size(format_size(size)) == size


@given(st.floats(1e-3, 1e12, allow_nan=False))
def test_a_rate_survives_the_way_to_text_and_back(rate):
    assert parse_rate(format_rate(rate)) == rate


def test_texts_use_the_largest_unit_without_decimals():
    assert [format_duration(seconds) for seconds in (60.0, 0.1, 8e-7, 0.0)] == [
        "60 s",
        "100 ms",
        "800 ns",
        "0 s",
    ]
    assert [format_size(size) for size in (32768, 64 << 20, 1000, 0)] == ["32 kb", "64 mb", "1000 b", "0 b"]
    assert [format_rate(rate) for rate in (2e9, 1.25e9, 1500.0, 0.5)] == [
        "2 GB/s",
        "1250 MB/s",
        "1500 B/s",
        "0.5 B/s",
    ]


@pytest.mark.parametrize(
    ("parse", "right"),
    [
        (parse_flink_duration, 'a time such as "5 ms" or "5 s"'),
        (parse_flink_size, 'a size such as "5 kb" or "5 mb"'),
    ],
)
def test_a_unit_may_be_needed(parse: Callable[..., float], right: str) -> None:
    assert parse(5) == parse("5")
    with pytest.raises(QuantityError) as raised:
        parse("5", needs_unit=True)
    assert (raised.value.wrong, raised.value.right) == ("'5' has no unit", right)
