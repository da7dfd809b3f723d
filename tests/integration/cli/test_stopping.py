"""Ctrl-C and SIGTERM, from a command's first moment to its last, however they are taken or lost."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.base.stopping import PATIENCE_S, StopSignals
from tests.integration.cli.test_cli import NOTICED, SHORT
from tests.signals import ended_by

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]


STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit status after each signal, as a shell reports it."""

SIGNALS = pytest.mark.parametrize("number", list(STATUS), ids=lambda number: number.name)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "endless.toml"
    path.write_text(NOTICED)
    return path


AT_IMPORT = """
import os, sys
number, module = int(sys.argv.pop(1)), sys.argv.pop(1)
def hook(event, arguments):
    if event == "import" and arguments[0] == module:
        os.kill(os.getpid(), number)
sys.addaudithook(hook)
from integration.__main__ import main
sys.exit(main())
"""
"""Runs the command line and sends it a signal when it begins to import a module."""


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("number", "module"),
    [
        (signal.SIGINT, "integration.cli.app"),
        (signal.SIGINT, "cyclopts"),
        (signal.SIGINT, "numpy._core._multiarray_umath"),
        (signal.SIGINT, "numpy.random._generator"),
        (signal.SIGTERM, "integration.runs.seeds"),
    ],
)
def test_a_signal_while_the_command_is_imported_is_one_line(number: signal.Signals, module: str) -> None:
    done = run_script(AT_IMPORT, int(number), module, "run", "none.toml")
    assert (done.returncode, done.stdout, done.stderr) == (STATUS[number], b"", b"netstack: stopped\n")


@pytest.mark.parametrize(
    ("number", "module"),
    [
        (signal.SIGINT, "integration.advise.sweeps.sweep"),
        (signal.SIGTERM, "integration.advise.sweeps.end_of_run"),
    ],
)
def test_a_signal_while_a_command_of_its_own_module_is_imported_is_one_line(
    number: signal.Signals, module: str
) -> None:
    done = run_script(AT_IMPORT, int(number), module, "tune", "none.toml")
    assert (done.returncode, done.stdout, done.stderr) == (STATUS[number], b"", b"netstack: stopped\n")


def test_a_command_begins_to_listen_before_it_imports_anything_that_takes_a_while() -> None:
    script = """
import sys
before = set(sys.modules)
from integration.__main__ import main
print(*sorted(set(sys.modules) - before))
"""
    needed = {"__future__", "atexit", "_thread", "collections.abc", "signal", "time", "types"}
    ours = {"integration", "integration.__main__", "integration.base", "integration.base.stopping"}
    assert set(run_script(script).stdout.decode().split()) <= ours | needed


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "integration", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,  # what readline() leaves is communicate()'s
    )


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGINT, ["--real-time"]), (signal.SIGTERM, []), (signal.SIGTERM, ["--real-time"])],
)
def test_a_signal_ends_a_run(number: signal.Signals, how: list[str], scenario: Path) -> None:
    with started(["run", str(scenario), *how]) as process:
        assert process.stderr is not None
        assert b"ignores it" in process.stderr.readline()
        out, err = ended_by(process, number)
    assert (process.returncode, out, err) == (STATUS[number], b"", b"netstack: stopped\n")


def test_the_end_of_a_comparison_is_the_end_of_its_processes(scenario: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/data/flink-reference/1x1_5MBs_off.json", tmp_path / "endless.json")
    scenario.write_text(NOTICED.replace('name = "short"', 'name = "endless"'))
    ends = {
        signal.SIGTERM: (143, b"netstack: stopped\n"),
        signal.SIGHUP: (128 + signal.SIGHUP, b"netstack: stopped\n"),
        signal.SIGKILL: (-signal.SIGKILL, b""),  # the worker processes notice that their parent is gone
    }
    for number, (status, message) in ends.items():
        with started(["compare", str(scenario), str(tmp_path)]) as process:
            assert process.stderr is not None
            assert b"ignores it" in process.stderr.readline()
            out, err = ended_by(process, number)  # all of them have closed stderr by then
        if number == signal.SIGKILL and b"resource_tracker: There appear to be" in err:
            err = b""  # Python warns of the semaphores that it cleans up
        assert (process.returncode, out, err) == (status, b"", message)


IN_A_RUN = """
import os, signal, sys
from integration.base import stopping
from integration.show.terminal import progress
{before}
def report(done):
    if done > 1:
        {once}
progress._report_in_lines = lambda *_: report
from integration.__main__ import main
sys.exit(main())
"""
"""Runs the command line; `once` is done again and again after the first emulated second."""


@SIGNALS
def test_a_signal_in_the_background_of_a_shell(number: signal.Signals, tmp_path: Path) -> None:
    """There SIGINT is ignored, and stays so; SIGTERM is not."""
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    script = IN_A_RUN.format(
        before="signal.signal(signal.SIGINT, signal.SIG_IGN)",
        once=f"signal.raise_signal({int(number)})",
    )
    done = run_script(script, "run", scenario)
    if number is signal.SIGINT:
        assert (done.returncode, done.stderr) == (0, b"")
    else:
        assert (done.returncode, done.stderr) == (143, b"netstack: stopped\n")


SWALLOWED = """
import os, signal, sys, types
sys.path.insert(0, {folder!r})
from integration.cli import run as command
def work(file, *_, **__):
    {lost}
    for _ in range(200_000_000):  # some seconds of work
        pass
    os._exit(99)
command.load_runnable = work
from integration.__main__ import main
sys.exit(main())
"""

LOST = {
    "finalizer": """
    class Thing:
        def __del__(self): signal.raise_signal({number})
    Thing()""",
    "weak reference": """
    import weakref
    class Thing: pass
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal({number}))
    del thing""",
    "garbage": """
    import gc
    gc.callbacks.append(lambda *_: (gc.callbacks.clear(), signal.raise_signal({number})))
    gc.collect()""",
    "import that may fail": """
    import careless""",
    "call to Spark": """
    from integration.base.signals import held_interrupts
    class Thing:
        def __del__(self): signal.raise_signal({number})
    Thing()
    with held_interrupts():
        for _ in range(5_000_000): pass""",
    "five times": """
    for _ in range(5):
        try:
            signal.raise_signal({number})
            for _ in range(200_000_000): pass
        except BaseException:
            pass""",
}


@pytest.mark.parametrize(
    ("number", "lost"), [*((signal.SIGINT, lost) for lost in LOST), (signal.SIGTERM, "five times")]
)
def test_a_signal_whose_exception_is_swallowed_is_heard_all_the_same(
    number: signal.Signals, lost: str, tmp_path: Path
) -> None:
    careless = f"import signal\ntry:\n    signal.raise_signal({int(number)})\nexcept:\n    pass\n"
    (tmp_path / "careless.py").write_text(careless)
    script = SWALLOWED.format(folder=str(tmp_path), lost=LOST[lost].format(number=int(number)))
    done = run_script(script, "run", "any.toml")
    assert (done.returncode, done.stdout, done.stderr) == (STATUS[number], b"", b"netstack: stopped\n")


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_an_error_that_comes_of_a_signal_is_not_told(number: signal.Signals) -> None:
    lost = f"""
    try:
        signal.raise_signal({int(number)})
    except KeyboardInterrupt:
        raise ValueError("half done")"""
    done = run_script(SWALLOWED.format(folder="", lost=lost), "run", "any.toml")
    assert (done.returncode, done.stdout, done.stderr) == (STATUS[number], b"", b"netstack: stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_that_comes_twice_at_once_lets_the_command_clean_up(number: signal.Signals) -> None:
    lost = f"""
    try:
        signal.raise_signal({int(number)})
    finally:
        os.kill(os.getpid(), {int(number)})
        print("cleaned up")"""
    done = run_script(SWALLOWED.format(folder="", lost=lost), "run", "any.toml")
    assert (done.returncode, done.stdout) == (STATUS[number], b"cleaned up\n")
    assert done.stderr == b"netstack: stopped\n"


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_after_the_outcome_changes_nothing(number: signal.Signals) -> None:
    script = f"""
import atexit, signal, sys
from integration.__main__ import main
atexit.register(signal.raise_signal, {int(number)})
status = main()
signal.raise_signal({int(number)})
sys.exit(status)
"""
    done = run_script(script, "--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"netstack ")


def test_a_later_signal_ends_the_cleaning_up_too() -> None:
    now = [10.0]
    signals = StopSignals(clock=lambda: now[0])
    signals.work_begins()
    for at in (10.0, 10.0 + PATIENCE_S):
        now[0] = at
        with pytest.raises(KeyboardInterrupt):
            signals.handle(signal.SIGTERM, None)
        now[0] = at + PATIENCE_S / 2
        signals.handle(signal.SIGINT, None)  # says nothing new
    assert signals.end() == 143


def test_a_command_that_nobody_stopped_has_its_own_status() -> None:
    signals = StopSignals()
    signals.work_begins()
    assert signals.end() is None
    assert signals.end(ValueError()) is None
    assert signals.end(BaseExceptionGroup("", [KeyboardInterrupt()])) == 130
