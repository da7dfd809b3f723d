"""What stands in the way of a cluster is said in a line, and nothing of it stays behind."""

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from filelock import FileLock

from integration.base.errors import Note, Parameter
from integration.cli import option_names
from tests.flink import __main__ as commands
from tests.flink import cluster as testbed_cluster
from tests.flink.cluster import (
    CACHE,
    FOLDER,
    JAVA,
    NEWEST,
    RELEASES,
    Cluster,
    Layout,
    Processes,
    Rest,
    Software,
    TestbedError,
    cache,
    cluster,
    end_left_behind,
    left_behind,
    options_of,
    prepare,
)
from tests.flink.measuring import check_agent
from tests.flink.ordinary_jobs import JOBS, asked_for

WAITS = "import sys, time; sys.argv[1:] and open(sys.argv[1], 'w').close(); time.sleep(600)"
"""A process that opens a file, so that one knows that it runs, and then waits to be ended."""

NOTHING = Software(NEWEST, (), Path("jobs.jar"), Path("agent.jar"))


@pytest.fixture(autouse=True)
def _cache_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))


def test_without_a_compiler_a_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError, match="there is no java and no javac and no jar; install a JDK"):
        prepare()


@pytest.mark.parametrize("release", RELEASES.values())
def test_a_wheel_that_is_broken_is_named(
    release: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(testbed_cluster, "check_java", lambda: None)
    for each in RELEASES.values():
        (tmp_path / f"apache_flink_libraries-{each}-py2.py3-none-any.whl").write_bytes(b"half a wheel")
    with pytest.raises(TestbedError, match=f"libraries-{release}-.*: is no whole wheel; delete it"):
        prepare(release)


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("testbed: burst changed A", None),
        ("testbed: burst changed A\ntestbed: B has no onBuffer()V", "cannot change this Flink: B has no onB"),
        ("something else", "the agent has changed nothing"),
    ],
)
def test_an_agent_that_could_not_change_flink_is_refused(
    printed: str, why: str | None, tmp_path: Path
) -> None:
    processes = Processes(tmp_path)
    processes.start("tm0", [sys.executable, "-c", f"print({printed!r})"])
    processes._running["tm0"].wait()
    with nullcontext() if why is None else pytest.raises(TestbedError, match=why):
        check_agent(Cluster(tmp_path, processes, Rest(1), NOTHING))
    processes.end()


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache() == tmp_path
    monkeypatch.delenv(CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache() == Path("/somewhere/netstack-flink")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(TestbedError, match=f"port {port} of 127.0.0.1 is taken"), _cluster(port):
            pass


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        FileLock(tmp_path / "lock"),
        pytest.raises(TestbedError, match="another run is going on"),
        _cluster(0),
    ):
        pass


def _cluster(port: int) -> Any:
    return cluster(NOTHING, Layout(task_managers=[{}]), port)


def test_processes_of_an_earlier_run_are_seen_and_ended(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    earlier = Processes(folder)
    os.mkfifo(folder / "up")
    earlier.start("jm", [sys.executable, "-c", WAITS, str(folder / "up")])
    (folder / "up").read_bytes()  # a fresh process has no command line for a moment
    (process,) = earlier.ids.values()
    assert left_behind(folder) == [process]
    with (
        pytest.raises(TestbedError, match=rf"still runs \(processes {process}\).*tests.flink stop"),
        _cluster(0),
    ):
        pass
    assert end_left_behind(folder) == 1
    assert left_behind(folder) == []
    earlier.end()


def test_the_note_of_processes_that_are_others_now_ends_nobody(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", WAITS])
    (tmp_path / "processes").write_text(f"{other.pid}\n", "utf-8")
    assert end_left_behind(tmp_path) == 0
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_process_runs_on_the_cores_that_it_is_given(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    core = min(allowed)
    processes = Processes(tmp_path)
    told = "import os; print(*os.sched_getaffinity(0))"
    processes.start("tm0", [sys.executable, "-c", told], [core])
    processes.start("tm1", [sys.executable, "-c", told])
    for process in processes._running.values():
        process.wait()
    assert (tmp_path / "tm0.out").read_text("utf-8") == f"{core}\n"
    assert set(map(int, (tmp_path / "tm1.out").read_text("utf-8").split())) == allowed
    assert os.sched_getaffinity(0) == allowed
    processes.end()


def test_a_cluster_that_needs_more_cores_than_there_are_is_refused() -> None:
    there = len(os.sched_getaffinity(0))
    layout = Layout(task_managers=[{}], cores=[[there]])
    with (
        pytest.raises(TestbedError, match=f"machines need {there + 1} cores, but this machine has {there}"),
        cluster(NOTHING, layout, 0),
    ):
        pass


def test_a_task_manager_that_ends_is_named_with_its_log(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("jm", [sys.executable, "-c", WAITS])
    processes.start("tm0", [sys.executable, "-c", "raise SystemExit(3)"])
    processes._running["tm0"].wait()
    with pytest.raises(
        TestbedError, match=r"task manager tm0 has ended \(exit status 3\); its log is .*tm0.log"
    ):
        processes.check()
    job_manager = processes._running["jm"]
    processes.end()
    assert job_manager.returncode is not None
    assert not (tmp_path / "processes").exists()


def test_the_options_of_a_scenario_do_not_move_the_testbed(tmp_path: Path) -> None:
    given = {"execution.checkpointing.dir": "file:///mine", "restart-strategy.type": "fixed-delay", "a.b": 1}
    options = options_of(Layout(task_managers=[{}], options=given, slots=3), tmp_path, 1, 2)
    assert options["a.b"] == 1
    assert options["taskmanager.numberOfTaskSlots"] == 3
    assert options["execution.checkpointing.dir"] == f"file://{tmp_path}/checkpoints"
    assert options["restart-strategy.type"] == "none"


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["run", "nowhere"], 2, "nowhere: is no scenario"),
        (["compare", "proof", "--policy", "mine"], 2, "policy"),
        (["jobs", "nothing:off"], 1, "there is no job 'nothing'"),
        (["jobs", "etl:burn_on9"], 1, "there is no setting 'burn_on9'"),
        (["jobs", "etl:adaptive", "--flink", "2.2.1"], 1, "came with Flink 2.3, but this run uses 2.2.1"),
        (["run", "2x2_200KBs_on1s", "--flink", "2.3.0"], 2, "preset: is flink-2.2, but Flink 2.3.0 has"),
        (["jobs", "etl:off", "--seconds", "5"], 1, "--warmup 25: leaves nothing of --seconds 5"),
        (["jobs", "lookups:off", "--steps"], 1, "lookups_off runs without debloating, so there are no steps"),
        (["policies", "--only", "proof"], 2, "no such scenario: proof"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["flink", *arguments])
    assert commands.main() == status
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_a_note_of_an_import_names_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_names, "_app", App())  # as at the start of the program
    option_names._options.cache_clear()
    monkeypatch.setattr(sys, "argv", ["flink", "stop"])
    assert commands.main() == 0
    note = Note("0 s.", Parameter("latency_s"))
    assert option_names.naming_options(note) == "0 s. Set --latency to override."


@pytest.mark.parametrize("job", JOBS)
def test_each_job_is_a_case_of_its_java_class(job: str) -> None:
    source = JAVA / "jobs" / f"{JOBS[job].entry.replace('.', '/')}.java"
    assert f'case "{job}" ->' in source.read_text("utf-8")


def test_a_job_without_a_setting_is_switched_off() -> None:
    assert asked_for("etl").name == "etl_off"
    assert asked_for("wordcount:burn_on1s").burns
    assert (
        asked_for("wordcount:burn_on1s").options["taskmanager.network.memory.buffer-debloat.enabled"]
        == "true"
    )


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("on50ms", "taskmanager.network.memory.buffer-debloat.target", "50 ms"),
        ("burn_on2s", "taskmanager.network.memory.buffer-debloat.target", "2 s"),
        ("unaligned_after_400ms", "execution.checkpointing.aligned-checkpoint-timeout", "400 ms"),
        ("burn_on100ms+adaptive", "taskmanager.network.memory.buffer-debloat.target", "100 ms"),
        ("burn_on100ms+adaptive", "taskmanager.network.adaptive-partitioner.enabled", "true"),
    ],
)
def test_a_setting_names_any_target_or_timeout(setting: str, name: str, value: str) -> None:
    assert asked_for(f"etl:{setting}").options[name] == value


@pytest.mark.parametrize("setting", ["on", "on0ms", "on300", "sometimes"])
def test_an_unknown_setting_is_refused_with_the_known_ones(setting: str) -> None:
    with pytest.raises(TestbedError, match=rf"no setting '{setting}'; there are off, .*on300ms"):
        asked_for(f"etl:{setting}")


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--repetitions", "0", "'0' is not a whole number from 1 on"),
        ("--seeds", "many", "'many' is not a whole number from 1 on"),
        ("--port", "70000", "70000 is no port; the last one is 65535"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    option: str, value: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        commands.parser().parse_args(["compare", "proof", option, value])
    assert why in capsys.readouterr().err
