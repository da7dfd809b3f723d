"""How many records a vertex emits for those that it reads, whatever blocks they come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from buffers import RecordBlock
from netstack.tasks.synthetic_output import Emission
from netstack.tasks.transactions import Transaction, TransactionLog

SIZES = st.lists(st.integers(1, 5), max_size=6)


def blocks(sizes: list[int]) -> list[RecordBlock]:
    """Blocks of so many records, which are numbered."""
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [
        RecordBlock.from_payloads([b"%03d" % number for number in range(start, start + size)])
        for start, size in zip(starts, sizes, strict=True)
    ]


@given(SIZES, st.integers(0, 20))
def test_records_come_out_in_turns_of_the_selectivity(sizes: list[int], eighths: int) -> None:
    emission = Emission(eighths / 8)
    emitted = [bytes(each) for block in blocks(sizes) for each in emission.process(block).payloads()]
    counts = [(number + 1) * eighths // 8 - number * eighths // 8 for number in range(sum(sizes))]
    assert emitted == [b"%03d" % number for number, count in enumerate(counts) for _ in range(count)]


@given(SIZES, st.integers(0, 20), st.data())
def test_by_chance_each_record_has_a_number_of_its_own(
    sizes: list[int], eighths: int, data: st.DataObject
) -> None:
    chances = data.draw(st.lists(st.integers(0, 7), min_size=sum(sizes), max_size=sum(sizes)))
    emission = Emission(eighths / 8, record_bytes=5, chance=(each / 8 for each in chances))
    emitted = [bytes(each) for block in blocks(sizes) for each in emission.process(block).payloads()]
    counts = [(eighths + chance) // 8 for chance in chances]
    assert emitted == [b"%03d.." % number for number, count in enumerate(counts) for _ in range(count)]


def test_a_transaction_is_committed_once_whatever_it_brings_again() -> None:
    log = TransactionLog()
    first = Transaction("out", 1, 7, (b"a", b"b"))
    log.commit(first)
    log.commit(first._replace(records=(b"c",)))
    assert log.transactions == [first]
