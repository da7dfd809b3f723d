"""Tables and progress on terminals of several widths."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from integration.show.terminal.console import Terminal
from integration.show.terminal.progress import progress

ROOT = Path(__file__).parents[3]
REFERENCES = ROOT / "tests/data/flink-reference"
JOB, MEASURED = str(REFERENCES / "2x2_200KBs_on1s.toml"), str(REFERENCES / "2x2_200KBs_on1s.json")
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_a_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines that a command prints to a terminal of so many columns, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "integration", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment | {"TERM": "xterm-256color"},
    ):
        os.close(theirs)
        read = b"".join(iter(lambda: part(ours), b""))
    os.close(ours)
    return CODES.sub("", read.decode()).replace("\r", "").splitlines()


def part(terminal: int) -> bytes:
    """What comes next; nothing once the command has ended."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


@pytest.mark.parametrize("columns", [60, 120])
def test_a_run_fits_its_terminal(columns: int) -> None:
    lines = on_a_terminal(columns, "run", JOB)
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    heads = [line for line in lines if re.search("rec/s +buffer", line)]
    assert ["delay" in line for line in heads] == [columns > 80]  # else it is the second of two tables
    rows = [line for line in lines if line.startswith("stage1")]
    assert len(rows) == (1 if columns > 80 else 2)


@pytest.mark.parametrize("columns", [60, 200])
def test_a_comparison_fits_its_terminal(columns: int) -> None:
    lines = on_a_terminal(columns, "compare", JOB, MEASURED, "--seeds", "1")
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    verdicts = [line.split()[-1] for line in lines if line.startswith((" end to end", " throughput"))]
    assert verdicts == ["ok", "ok"]
    widest = max(len(line) for line in lines if line.startswith(("Times in", "Medians")))
    assert widest > columns - 20  # sentences use the width that there is


def test_progress_says_what_is_done_and_how_long_the_rest_takes(capfd: pytest.CaptureFixture[str]) -> None:
    for columns in (60, 80, 200):
        console = Terminal(force_terminal=True, width=columns, color_system=None)
        with progress("wide", 10.0, "s", console, before="building", behind="releasing memory") as report:
            report(4.0)
            report(10.0)
        shown = CODES.sub("", capfd.readouterr().out)
        assert shown.index("wide: building") < shown.rindex("wide: releasing memory")
        assert "10 of 10 s" in shown
        assert re.search(r"left \d:\d\d:\d\d", shown)
        assert max(map(len, re.split(r"[\r\n]+", shown))) <= columns


def test_progress_in_a_file_says_nothing_of_what_is_over_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("job", 10.0, "s", Terminal(force_terminal=False, width=80)) as report:
        report(1.0)
    assert capsys.readouterr().out == ""
