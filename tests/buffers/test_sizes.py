from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import gate_buffers, gate_segments, partition_buffers, partition_segments
from tests.vectors import flink_vectors

VECTORS = flink_vectors("pool_gate_buffers_spec")


@pytest.mark.parametrize("scenario", VECTORS.values(), ids=VECTORS)
def test_flinks_gates(scenario: dict[str, Any]) -> None:
    given_, expect = scenario["given"], scenario["expect"]
    spec = gate_buffers(
        given_["channels"],
        given_["exclusive_configured"],
        given_["floating_configured"],
        given_["max_required_per_gate"],
    )
    assert spec.required_floating == expect["required_floating"]
    assert spec.total_floating == expect["total_floating"]
    assert spec.exclusive_per_channel == expect["exclusive_per_channel"]
    assert spec.target_total == expect["target_total"]


@given(
    channels=st.integers(1, 3000),
    exclusive=st.integers(0, 10),
    floating=st.integers(1, 100),
    limit=st.none() | st.integers(1, 5000),
)
def test_a_gate_is_divided_without_rest(
    channels: int, exclusive: int, floating: int, limit: int | None
) -> None:
    spec = gate_buffers(channels, exclusive, floating, limit)
    assert 1 <= spec.required_floating <= spec.total_floating
    assert 0 <= spec.exclusive_per_channel <= exclusive
    assert channels * spec.exclusive_per_channel + spec.total_floating == spec.target_total
    required = channels * spec.exclusive_per_channel + spec.required_floating
    assert required == (channels * exclusive + 1 if limit is None else min(limit, channels * exclusive + 1))


@pytest.mark.parametrize("arguments", [(0, 2, 8), (1, -1, 8), (1, 2, 0), (1, 2, 8, 0)])
def test_impossible_gates(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a gate was given"):
        gate_buffers(*arguments)


@pytest.mark.parametrize(
    ("subpartitions", "per_channel", "floating", "expected"),
    [
        (1, 2, 8, (2, 10)),
        (2, 2, 8, (3, 12)),
        (256, 2, 8, (257, 520)),
        (2, 0, 8, (3, 8)),
        (16, 0, 8, (17, 17)),
        (4, 1, 0, (5, 5)),
    ],
)
def test_partition_sizes(
    subpartitions: int, per_channel: int, floating: int, expected: tuple[int, int]
) -> None:
    assert partition_buffers(subpartitions, per_channel, floating) == expected


@pytest.mark.parametrize("arguments", [(0, 2, 8), (1, -1, 8), (1, 2, -1)])
def test_impossible_partitions(arguments: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError,
        match=r"a partition was given -?\d+ subpartitions \(at least 1\), -?\d+ buffers per subpartition "
        r"\(at least 0\) and -?\d+ floating buffers \(at least 0\)",
    ):
        partition_buffers(*arguments)


def test_what_a_task_manager_can_use_at_most() -> None:
    spec = gate_buffers(4, 2, 8)
    assert gate_segments(spec, remote_channels=4) == 16
    assert gate_segments(spec, remote_channels=1) == 10
    assert partition_segments(4, 2, 8, overdraft=20) == 36
