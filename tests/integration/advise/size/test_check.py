"""The computed figures against emulated ones."""

import msgspec
import pytest

from integration.advise.size.emulated_check import RUNS, check_job, check_memory
from integration.advise.size.job_from_numbers import Numbers, scenario_of_numbers
from integration.advise.size.job_size import size_job
from integration.cli.app import main
from integration.show.terminal.sizing import SizeReport

DEBLOATING = (
    "taskmanager.network.memory.buffer-debloat.enabled=true",
    "taskmanager.network.memory.buffer-debloat.target=300 ms",
)


@pytest.mark.parametrize(
    "numbers",
    [
        Numbers("400 KB/s", "2", record_bytes=2000),
        Numbers("600 KB/s", "3:2", round_trip="100 ms", record_bytes=2000),
    ],
    ids=["near", "far"],
)
def test_the_emulation_shows_what_was_computed(numbers: Numbers) -> None:
    scenario = scenario_of_numbers(numbers)
    size = size_job(scenario)
    done: list[int] = []
    check = check_job(scenario, size, 1, done.append)
    computed, emulated = size.consumers[0], check.consumers[0]
    assert done == list(range(1, RUNS + 1))
    for value, spread in (
        (computed.bytes_per_s, emulated.bytes_per_s),
        (computed.expected_bytes, emulated.in_flight_bytes),
        (computed.expected_drain_ms, emulated.drain_ms),
    ):
        assert spread is not None
        assert spread.median == pytest.approx(value, rel=0.1)
    assert emulated.queued_buffers is not None
    channels = size.exchanges[0].channels
    assert emulated.queued_buffers.most <= channels * 2 + 8 + channels  # events take no buffer
    assert emulated.least_drain_ms is not None
    assert computed.least_drain_ms is not None
    assert emulated.least_drain_ms.median < 0.5 * (computed.expected_drain_ms or 0)
    assert emulated.least_drain_ms.median == pytest.approx(computed.least_drain_ms, rel=0.4)


def test_a_job_starts_with_what_it_needs_and_not_with_one_buffer_less() -> None:
    scenario = scenario_of_numbers(Numbers("100 KB/s", "2:3", record_bytes=2000))
    size = size_job(scenario)
    memory = check_memory(scenario, size)
    assert (memory.buffers, memory.starts, memory.starts_with_less) == (15, True, False)


def test_the_command_prints_both(tmp_path, capsys) -> None:
    options = [argument for option in DEBLOATING for argument in ("--set", option)]
    numbers = ["--throughput", "400 KB/s", "--parallelism", "2", "--record-bytes", "2000"]
    arguments = ["size", *numbers, *options, "--check", "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "virtual clock, seed 1" in " ".join(out.split())
    assert "starts; 9 do not" in out
    report = msgspec.json.decode((tmp_path / "size.json").read_bytes(), type=SizeReport)
    assert report.check is not None
    (consumer,) = report.check.consumers
    assert consumer.drain_ms is not None
    assert consumer.drain_ms.median == pytest.approx(300, rel=0.25)
    assert consumer.debloated_bytes is not None
    assert consumer.debloated_bytes.median == pytest.approx(
        report.size.consumers[0].debloated_bytes or 0, rel=0.3
    )
