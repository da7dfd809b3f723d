"""The traces and the numbers of the pages about checkpoints are those of the emulator."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from integration.show.terminal.run import TracePrinter
from netstack import MemoryStorage, TraceEvent, TransactionLog, emulate

DOCS = Path(__file__).parents[2] / "docs"
STUDY = DOCS / "studies" / "STORY_OF_A_CHECKPOINT.md"
SECTIONS = {
    "aligned": "Aligned",
    "at-least-once": "At least once",
    "unaligned": "Unaligned",
    "timeout": "Aligned with a timeout",
}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", DOCS / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


STORY = example("checkpoint_story")
EVEN, ODD = 24, 18


def section(title: str, page: Path = STUDY) -> str:
    return page.read_text("utf-8").split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(
    ("mode", "snapshot", "in_flight", "even"),
    [
        ("aligned", 8, (), EVEN),
        ("at-least-once", 12, (), EVEN + 4),
        ("unaligned", 2, (2, 4), EVEN),
        ("timeout", 4, (4,), EVEN),
    ],
)
def test_what_each_mode_stores_and_what_comes_of_it_after_a_failure(
    mode: str, snapshot: int, in_flight: tuple[int, ...], even: int
) -> None:
    story = STORY.tell(mode)
    assert (story.snapshot, story.in_flight) == (snapshot, in_flight)
    assert story.sums == {"even": even, "odd": ODD}


@pytest.mark.parametrize("mode", [mode for mode in STORY.MODES if mode != "at-least-once"])
def test_state_and_data_in_flight_make_what_was_sent_before_the_barriers(mode: str) -> None:
    story = STORY.tell(mode)
    assert story.snapshot + sum(story.in_flight) == 2 + 2 + 4


@pytest.mark.parametrize(("mode", "title"), SECTIONS.items())
def test_the_traces_of_the_page_are_what_the_example_prints(
    mode: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    STORY.main([mode])
    printed = capsys.readouterr().out
    traces = re.findall(r"```text\n(.*?)```", section(title), re.DOTALL)
    assert traces
    assert [trace for trace in traces if trace not in printed] == []


def test_all_steps_are_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    STORY.main(["aligned"])
    few = capsys.readouterr().out.splitlines()
    STORY.main(["aligned", "--all"])
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line in few] == few
    assert any(" sum_odd " in line for line in printed)
    assert not any(" sum_odd " in line for line in few)


def test_the_costs_of_the_page_are_what_the_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    example("back_pressure").main([])
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == len(SECTIONS)
    assert printed in section("What it costs", DOCS / "CHECKPOINTS.md")


def test_a_barrier_overtakes_what_is_queued_at_the_sender() -> None:
    trace, checkpoint = example("back_pressure").run("unaligned")
    overtaken = [event for event in trace if " overtakes " in event.text]
    pattern = re.compile(r"barrier 1 overtakes ([\d,]+) bytes on the way to (consumer\[[01]\])")
    matches = [pattern.fullmatch(event.text) for event in overtaken]
    found = [(match[2], int(match[1].replace(",", ""))) for match in matches if match is not None]
    assert sorted({consumer for consumer, _ in found}) == ["consumer[0]", "consumer[1]"]
    assert sum(size for _, size in found) == sum(checkpoint.vertices[0].alignment_persisted_bytes)
    assert {event.checkpoint_id for event in overtaken} == {1}


@pytest.mark.parametrize("mode", STORY.MODES)
def test_a_trace_changes_nothing(mode: str) -> None:
    pressed = example("back_pressure")
    _, traced = pressed.run(mode)
    assert emulate(pressed.scenario(mode)).checkpoints == [traced]


def console(path: Path) -> Console:
    return Console(file=path.open("w", encoding="utf-8"), width=40)


def test_a_step_is_printed_on_one_line_and_as_it_is(tmp_path: Path) -> None:
    log = [
        TraceEvent(1.0, "coordinator", "triggers checkpoint 1: aligned", 1),
        TraceEvent(1.5, "job", "the job fails: [bold]why[/bold]"),
    ]
    out = console(tmp_path / "trace")
    with out.file:
        for event in log:
            TracePrinter(out)(*event)
    assert (tmp_path / "trace").read_text("utf-8").splitlines() == [str(event) for event in log]


def test_a_trace_is_printed_while_the_job_runs(tmp_path: Path) -> None:
    out, log = console(tmp_path / "trace"), list[TraceEvent]()
    printer = TracePrinter(out)

    def both(at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        log.append(TraceEvent(at, place, text, checkpoint_id))
        printer(at, place, text, checkpoint_id)

    with out.file:
        emulate(STORY.scenario("aligned", TransactionLog()), storage=MemoryStorage(), trace=both)
    lines = (tmp_path / "trace").read_text("utf-8").splitlines()
    assert lines == [str(event) for event in log]
    assert "      15.0 ms  coordinator    triggers checkpoint 1: aligned" in lines
    assert "restarts from checkpoint 1" in "".join(lines)
