"""The table of ``netstack shuffle``, without Spark."""

import io

import pytest
from rich.console import Console

from integration.show.terminal.documents import Shuffled
from integration.show.terminal.spark_work import print_shuffle


def table(rows: int, stalls: int, size: int, blocked_s: float) -> list[str]:
    task = {
        "rows_read": rows,
        "rows": rows,
        "bytes_sent": size,
        "bytes_received": size,
        "credit_stalls": stalls,
        "credit_blocked_s": blocked_s,
        "peak_network_memory_bytes": size,
        "worker_memory_bytes": size,
    }
    document = Shuffled(
        input="in",
        output="out",
        keys=["key"],
        partitions=2,
        ship="hash",
        partitioner="flink",
        tasks=[{"task": number, **task} for number in (0, 1)],
    )
    file = io.StringIO()
    print_shuffle(document, Console(width=80, file=file))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("rows", [0, 499_999, 500_000, 2_000_000, 3_000_000_000])
@pytest.mark.parametrize("size", [0, 5 << 20, 1023 << 20])
@pytest.mark.parametrize(("stalls", "blocked_s"), [(0, 0.0), (1_775, 4.95), (123_456, 12_345.0)])
def test_no_number_is_cut_off(rows, size, stalls, blocked_s):
    lines = table(rows, stalls, size, blocked_s)
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_from_a_million_on_a_number_has_three_digits_and_all_of_them_above_the_table():
    lines = table(4_123_456, 17, 1000, 0.5)
    assert lines[1].startswith("8,246,912 rows into 2 partitions in ")
    (row,) = (line.split() for line in lines if line.startswith("all"))
    assert row[:6] == ["all", "8.25", "M", "8.25", "M", "1.95"]
