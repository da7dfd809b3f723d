"""The rules that assign the parts of a checkpoint to subtasks, without a job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from buffers import RecordBlock, RecordDecoder, encode_watermark
from netstack import (
    CheckpointMetadata,
    HandleReader,
    InitialCheckpoint,
    MemoryStorage,
    Redistribution,
    StateError,
    StateHandle,
    StateKind,
    SubtaskSnapshot,
)
from netstack.checkpoints.rescaling import Rescaling, StateAssignment, distribute, rescaling_mismatches, split
from netstack.exchange.key_groups import assign_to_operators, key_group_range
from netstack.scenarios.checkpointed_shape import JobShape
from netstack.state.value_encoding import decode_value, encode_value

EDGE = ("source", "count", "hash")
READ = HandleReader(MemoryStorage())


def operator(name: str, *values: Any) -> StateHandle:
    data = encode_value(list(values))
    return StateHandle(kind=StateKind.OPERATOR, name=name, size=len(data), inline=data)


def keyed(name: str, first: int, last: int) -> StateHandle:
    return StateHandle(kind=StateKind.KEYED, name=name, size=1, inline=b"?", key_groups=(first, last))


def in_flight(kind: str, channel: int, data: bytes, exchange: int = 0) -> StateHandle:
    return StateHandle(
        kind=StateKind(f"{kind} channel"), exchange=exchange, channel=channel, size=len(data), inline=data
    )


def checkpoint(
    parallelism: dict[str, int], *subtasks: SubtaskSnapshot, kind: str = "CHECKPOINT", **more: Any
) -> CheckpointMetadata:
    return CheckpointMetadata(
        checkpoint_id=7,
        job="job",
        checkpoint_type=kind,
        triggered_at=0.0,
        completed_at=1.0,
        parallelism=parallelism,
        subtasks=subtasks,
        **more,
    )


def part(vertex: str, subtask: int, *handles: StateHandle, **more: Any) -> SubtaskSnapshot:
    return SubtaskSnapshot(vertex=vertex, subtask=subtask, handles=handles, **more)


def shape(parallelism: dict[str, int], *edges: tuple[str, str, str]) -> JobShape:
    return JobShape("job", parallelism, edges or (EDGE,))


def lists(snapshot: SubtaskSnapshot) -> dict[str, list[Any]]:
    found = [handle for handle in snapshot.handles if handle.kind is StateKind.OPERATOR]
    return {handle.name: decode_value(READ(handle)) for handle in found}


def assigned(
    metadata: CheckpointMetadata, job: JobShape, vertex: str, hashes: Any = None
) -> list[SubtaskSnapshot]:
    assignment = StateAssignment(metadata, Rescaling(job, hashes or {}), READ)
    return [assignment.of(vertex, index) for index in range(job.parallelism[vertex])]


def test_a_list_is_split_in_order_and_the_first_have_one_more() -> None:
    assert split("abcdefg", 3) == [["a", "b", "c"], ["d", "e"], ["f", "g"]]
    assert split("ab", 3) == [["a"], ["b"], []]
    assert split("", 2) == [[], []]


def test_lists_of_tasks_themselves_mean_what_they_did() -> None:
    assert distribute("event time", [(0, [40]), (1, [70]), (2, [])], 2) == [[70], [70]]
    pending = [(0, [[5, [b"a"]]]), (1, [[5, [b"b"]], [4, [b"c"], 9]])]
    assert distribute("pending transactions", pending, 2) == [
        [[5, [b"a"], 0], [5, [b"b"], 1]],
        [[4, [b"c"], 9]],
    ]
    windows = [{"watermark": 10, "windows": {20: b"x"}}, {"watermark": 30, "windows": {}}]
    fired = {"watermark": 30, "windows": {}}
    assert distribute("records held back", [(0, windows[:1]), (1, windows[1:])], 3) == [
        [windows[0], fired],
        [windows[1], fired],
        [fired],
    ]
    assert distribute("records held back", [(0, [b"ab"]), (1, [b"c"])], 1) == [[b"ab", b"c"]]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(9, 300))
def test_each_key_group_is_given_to_its_owner_and_to_nobody_without_need(
    before: int, after: int, groups: int
) -> None:
    ranges = [key_group_range(groups, before, index) for index in range(before)]
    parts = [
        part("count", index, keyed(str(index), own.start, own.stop - 1)) for index, own in enumerate(ranges)
    ]
    metadata = checkpoint({"source": 1, "count": before}, *parts, max_parallelism={"count": groups})
    for index, snapshot in enumerate(assigned(metadata, shape({"source": 1, "count": after}), "count")):
        wanted = {*key_group_range(groups, after, index)} if before != after else {*ranges[index]}
        given_ranges = [{*ranges[int(handle.name)]} for handle in snapshot.handles]
        assert wanted <= set().union(*given_ranges)
        assert all(wanted & given_range for given_range in given_ranges)


def test_inputs_of_sources_go_on_as_splits_and_what_had_ended_does_not() -> None:
    metadata = checkpoint(
        {"source": 4, "count": 1},
        part("source", 0, operator("source position", 17), operator("event time", 5)),
        part("source", 1, finished=True, data_ended=True),
        part("source", 2, operator("source splits", [0, 8, 3], [4, 8, 1]), operator("event time", 9)),
    )
    two = assigned(metadata, shape({"source": 2, "count": 1}), "source")
    assert [lists(snapshot) for snapshot in two] == [
        {"source splits": [[0, 4, 17], [4, 8, 1]], "event time": [9]},
        {"source splits": [[0, 8, 3], [3, 4, 0]], "event time": [9]},  # the last one had not begun
    ]
    six = assigned(metadata, shape({"source": 6, "count": 1}), "source")
    assert [snapshot.data_ended for snapshot in six] == [False] * 4 + [True] * 2
    assert not any(snapshot.finished for snapshot in six)


ENDED = [
    part("count", 0, keyed("a", 0, 63), operator("records held back", b"x"), data_ended=True),
    part("count", 1, keyed("b", 64, 127), operator("records held back", b"y")),
]


@pytest.mark.parametrize(
    ("kind", "at_least_once", "names"),
    [
        ("CHECKPOINT", False, ["b", "records held back"]),
        ("AT_LEAST_ONCE_CHECKPOINT", False, ["a", "b", "records held back"]),
        ("SAVEPOINT", False, ["b", "records held back"]),
        ("SAVEPOINT", True, ["a", "b", "records held back"]),
    ],
)
def test_keys_whose_last_records_were_emitted_are_left_out_where_others_go_on(
    kind: str, at_least_once: bool, names: list[str]
) -> None:
    metadata = checkpoint({"source": 1, "count": 2}, *ENDED, kind=kind)
    job = shape({"source": 1, "count": 1})
    one = StateAssignment(metadata, Rescaling(job, {}, at_least_once), READ).of("count", 0)
    assert [handle.name for handle in one.handles] == names
    assert lists(one) == {"records held back": [b"y"]}
    assert not one.data_ended
    all_ended = checkpoint(
        {"source": 1, "count": 2}, ENDED[0], part("count", 1, keyed("b", 64, 127), finished=True)
    )
    (one,) = assigned(all_ended, shape({"source": 1, "count": 1}), "count")
    assert (one.data_ended, one.finished) == (True, False)
    assert [handle.name for handle in one.handles if handle.kind is StateKind.KEYED] == ["a", "b"]


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    return np.array([int(bytes(payload)[:3]) for payload in block.payloads()], dtype=np.int32)


def records(*numbers: int) -> bytes:
    return RecordBlock.from_payloads([b"%03d" % n + b"." * (n % 5) for n in numbers]).data.tobytes()


def numbers_in(snapshot: SubtaskSnapshot) -> dict[int, list[int]]:
    """The records that a subtask is given, by channel."""
    return {
        handle.channel: key_hash(RecordDecoder().feed(READ(handle))).tolist()
        for handle in snapshot.handles
        if handle.kind is StateKind.INPUT_CHANNEL
    }


def halves(data: bytes, cut: int, reader: int, writer: int) -> tuple[StateHandle, StateHandle]:
    """The pieces of a channel from a writer's subtask to a reader's: of the reader, and of the writer."""
    return in_flight("input", writer, data[:cut]), in_flight("output", reader, data[cut:])


@given(st.integers(0, 200), st.integers(1, 5), st.integers(1, 5))
def test_data_in_flight_goes_where_its_keys_are_in_its_order(cut: int, writers: int, readers: int) -> None:
    given_numbers = {
        (writer, reader): [reader * 100 + writer * 20 + number for number in range(10)]
        for writer in range(2)
        for reader in range(3)
    }
    pieces = {
        (writer, reader): halves(records(*numbers), cut, reader, writer)
        for (writer, reader), numbers in given_numbers.items()
    }
    metadata = checkpoint(
        {"source": 2, "count": 3},
        *(part("count", reader, *(pieces[writer, reader][0] for writer in range(2))) for reader in range(3)),
        *(part("source", writer, *(pieces[writer, reader][1] for reader in range(3))) for writer in range(2)),
    )
    job = shape({"source": writers, "count": readers})
    if (writers, readers) == (2, 3):
        return
    found = assigned(metadata, job, "count", {0: key_hash})
    assert not any(
        handle.kind is StateKind.OUTPUT_CHANNEL
        for snapshot in assigned(metadata, job, "source", {0: key_hash})
        for handle in snapshot.handles
    )
    for index, snapshot in enumerate(found):
        for channel, numbers in numbers_in(snapshot).items():
            assert channel < writers
            for own in given_numbers.values():
                assert [n for n in numbers if n in own] == sorted(n for n in numbers if n in own)
            if readers != 3:
                owners = assign_to_operators(np.array(numbers, dtype=np.int32), 128, readers)
                assert set(owners.tolist()) == {index}
    everything = [n for snapshot in found for own in numbers_in(snapshot).values() for n in own]
    assert sorted(everything) == sorted(n for own in given_numbers.values() for n in own)


def test_without_keys_records_go_in_turns() -> None:
    edge = ("source", "count", "rebalance")
    metadata = checkpoint(
        {"source": 1, "count": 2},
        part("count", 0, in_flight("input", 0, records(1, 2))),
        part("count", 1, in_flight("input", 0, records(3, 4, 5))),
    )
    found = assigned(metadata, shape({"source": 1, "count": 3}, edge), "count")
    assert [numbers_in(snapshot) for snapshot in found] == [{0: [1, 4]}, {0: [2, 5]}, {0: [3]}]


def test_a_subtask_goes_on_with_the_broadcast_of_the_one_whose_place_it_takes() -> None:
    edge = ("source", "count", "broadcast")
    pieces = [part("count", index, in_flight("input", 0, records(*range(index, 4)))) for index in range(2)]
    metadata = checkpoint({"source": 1, "count": 2}, *pieces)
    three = assigned(metadata, shape({"source": 1, "count": 3}, edge), "count")
    assert [numbers_in(snapshot)[0] for snapshot in three] == [[0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]]
    (one,) = assigned(metadata, shape({"source": 1, "count": 1}, edge), "count")
    assert numbers_in(one) == {0: [0, 1, 2, 3]}


def test_a_vertex_without_state_may_outgrow_its_key_groups() -> None:
    """Its records go by as many as its parallelism needs then."""
    numbers = range(0, 400, 7)
    metadata = checkpoint(
        {"source": 1, "count": 1}, part("count", 0, in_flight("input", 0, records(*numbers)))
    )
    job = shape({"source": 1, "count": 200})
    assert list(rescaling_mismatches(metadata, job)) == []
    found = assigned(metadata, job, "count", {0: key_hash})
    owners = assign_to_operators(np.array(numbers, dtype=np.int32), 512, 200)
    assert [numbers_in(snapshot).get(0, []) for snapshot in found] == [
        [number for number, owner in zip(numbers, owners.tolist(), strict=True) if owner == index]
        for index in range(200)
    ]


def test_watermarks_in_flight_are_left_out() -> None:
    data = encode_watermark(5) + records(1) + encode_watermark(9) + encode_watermark(10) + records(2, 3)
    metadata = checkpoint({"source": 1, "count": 1}, part("count", 0, in_flight("input", 0, data)))
    (one,) = assigned(metadata, shape({"source": 2, "count": 1}), "count")
    assert numbers_in(one) == {0: [1, 2, 3]}
    assert sum(handle.size for handle in one.handles) == len(records(1, 2, 3))


def test_what_ends_within_a_record_is_refused() -> None:
    metadata = checkpoint({"source": 2, "count": 1}, part("count", 0, in_flight("input", 1, records(1)[:-1])))
    job = shape({"source": 1, "count": 1})
    with pytest.raises(
        StateError, match=r"^the in-flight data from source\[1\] to count\[0\] ends within a r"
    ):
        assigned(metadata, job, "count")
    assert list(rescaling_mismatches(metadata, job)) == []


def test_an_exchange_that_has_not_changed_keeps_its_pieces() -> None:
    """Also where they begin within a record, and numbers of gates and outputs are not those of edges."""
    edges = (("one", "join", "hash"), ("two", "join", "hash"), ("two", "end", "rebalance"))
    pieces = [in_flight("input", 0, b"half", exchange=1), in_flight("output", 0, b"other", exchange=1)]
    before = {"one": 1, "two": 1, "join": 1, "end": 1}
    metadata = checkpoint(
        before,
        part("join", 0, in_flight("input", 0, records(1), exchange=0), pieces[0]),
        part("two", 0, in_flight("output", 0, b"half"), pieces[1]),
    )
    job = shape(before | {"one": 2}, *edges)
    (join,) = assigned(metadata, job, "join", {0: key_hash})
    assert pieces[0] in join.handles
    assert numbers_in(part("join", 0, *(each for each in join.handles if each.exchange == 0))) == {0: [1]}
    (two,) = assigned(metadata, job, "two")
    assert [handle.inline for handle in two.handles] == [b"half", b"other"]
    at_consumers = StateAssignment(metadata, Rescaling(job, {0: key_hash}, output_at_consumers=True), READ)
    assert at_consumers.of("two", 0).handles == ()
    assert [each.inline for each in at_consumers.of("join", 0).handles] == [records(1), b"halfhalf"]
    (end,) = at_consumers.of("end", 0).handles
    assert (end.kind, end.exchange, end.channel, end.inline) == (StateKind.INPUT_CHANNEL, 0, 0, b"other")


def test_operator_state_of_a_subtask_that_had_ended_is_nobody_elses() -> None:
    ended = part("count", 1, operator("mine", 1), operator("pending transactions", [1, []]), data_ended=True)
    metadata = checkpoint({"source": 1, "count": 2}, part("count", 0), ended)
    assert list(rescaling_mismatches(metadata, shape({"source": 1, "count": 3}))) == [
        "the input of count[1] had ended, but the input of other subtasks had not, so its part of the "
        "operator state 'mine' cannot be given to another subtask; restore an older checkpoint"
    ]
    assert list(rescaling_mismatches(metadata, shape({"source": 3, "count": 2}))) == []


@pytest.mark.parametrize(
    ("before", "now"), [("forward", "hash"), ("hash", "rebalance"), ("forward", "forward")]
)
def test_keys_that_no_hash_exchange_dealt_out_stay_with_their_subtasks(before: str, now: str) -> None:
    """Each subtask has them in the first of its key groups, where nobody else would find them."""
    metadata = checkpoint(
        {"source": 2, "count": 2},
        part("count", 0, keyed("a", 0, 63)),
        part("count", 1, keyed("a", 64, 127)),
        exchanges=(("source", "count", before),),
    )
    begin = InitialCheckpoint(metadata, MemoryStorage(), "earlier", 8)
    (problem,) = begin.mismatches(shape({"source": 3, "count": 3}, ("source", "count", now)))
    if before == now:
        assert problem == (
            "earlier: count has parallelism 2 in the checkpoint and 3 in the job; its keyed state "
            "cannot be redistributed, since no hash exchange leads to it; keep the parallelism of the "
            "checkpoint"
        )
    else:
        assert problem == (
            f"earlier: the checkpoint was taken with the edges source -> count ({before}), but the job "
            f"has the edges source -> count ({now}); they would send keys of count to subtasks that do "
            "not have the state of these keys; restore with the edges of the checkpoint"
        )
    assert begin.mismatches(shape({"source": 3, "count": 2}, ("source", "count", before))) == []


def test_a_broadcast_state_comes_from_the_one_whose_records_in_flight_come_too() -> None:
    """Also where that has none yet: it gets what the others have from its own records."""
    rules = replace(operator("rules", ["a", 1]), redistribution=Redistribution.BROADCAST)
    to_come = in_flight("input", 0, records(7))
    metadata = checkpoint({"source": 1, "count": 2}, part("count", 0, to_come), part("count", 1, rules))
    three = assigned(metadata, shape({"source": 1, "count": 3}, ("source", "count", "broadcast")), "count")
    assert [(lists(snapshot), numbers_in(snapshot)) for snapshot in three] == [
        ({}, {0: [7]}),
        ({"rules": [["a", 1]]}, {}),
        ({}, {0: [7]}),
    ]


@pytest.mark.parametrize("redistribution", [Redistribution.UNION, Redistribution.BROADCAST])
def test_lists_of_all_are_for_all_also_of_those_that_had_ended(redistribution: Redistribution) -> None:
    mine = replace(operator("mine", [1, 2]), redistribution=redistribution)
    job = shape({"source": 1, "count": 3})
    for finished in (False, True):
        ended = part("count", 1, *(() if finished else (mine,)), data_ended=True, finished=finished)
        metadata = checkpoint({"source": 1, "count": 2}, part("count", 0, mine), ended)
        assert (
            list(rescaling_mismatches(metadata, job))
            == [
                "some subtasks of count had ended and others had not, so their parts of the operator "
                "state 'mine' are missing; restore an older checkpoint"
            ]
            * finished
        )
