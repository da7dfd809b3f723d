"""The debloating policy in scenario files and on the command line."""

import dataclasses
import json
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from integration.advise.sweeps.point_rows import failed_row
from integration.advise.sweeps.points import point_of
from integration.advise.tune.charted_runs import _made_again
from integration.advise.tune.pitfalls import find_pitfalls
from integration.base.reading import load_result, load_scenario
from integration.cli.app import main
from integration.show.page.pages import write_report
from netstack import (
    InputError,
    check_scenario,
    emulate,
    read_scenario,
    scenario_document,
    to_json,
)

FILE = Path(__file__).parents[2] / "data" / "flink-reference" / "2x2_200KBs_on1s.toml"


def with_policy(folder: Path, policy: str) -> Path:
    path = folder / "job.toml"
    path.write_text(f"policy = {json.dumps(policy)}\n{FILE.read_text('utf-8')}", "utf-8")
    return path


def test_a_scenario_file_names_its_policy(tmp_path: Path) -> None:
    assert load_scenario(FILE).config.debloat_policy == "flink"
    scenario = load_scenario(with_policy(tmp_path, "longest-when-unblocked"))
    assert scenario.config.debloat_policy == "longest-when-unblocked"
    assert read_scenario(scenario_document(scenario)) == scenario


def test_a_wrong_policy_is_named_with_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="policy: 'longest-when-unblokked' is unknown; did you mean 'longest-when-unblocked'"
    ):
        load_scenario(with_policy(tmp_path, "longest-when-unblokked"))


def test_run_takes_a_policy_in_place_of_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FILE), "--json", "--policy", "longest-when-unblocked"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["scenario"]["policy"] == "longest-when-unblocked"
    assert main(["run", str(FILE), "--json"]) == 0
    literal = json.loads(capsys.readouterr().out)
    assert held["steady"][0]["end_to_end_ms"] < 0.8 * literal["steady"][0]["end_to_end_ms"]


def test_the_text_of_a_run_says_which_policy_it_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FILE), "--policy", "longest-when-unblocked"]) == 0
    assert "flink-2.2, policy longest-when-unblocked, seed 1" in capsys.readouterr().out.splitlines()[0]
    assert main(["run", str(FILE)]) == 0
    assert "policy" not in capsys.readouterr().out


def test_a_wrong_policy_on_the_command_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FILE), "--policy", "longest-when-blocked"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "--policy: 'longest-when-blocked' is unknown; did you mean 'longest-when-unblocked'?\n"


def test_a_policy_does_not_make_equal_scenarios_of_different_ones() -> None:
    scenario = load_scenario(FILE)
    other = dataclasses.replace(scenario.config, debloat_policy="longest-when-unblocked")
    assert dataclasses.replace(scenario, config=other) != scenario


CODE = "policy_of_a_file:Policy"
MODULE = """\
from pathlib import Path

from flowcontrol import POLICIES

Path(__file__).with_name("was-imported").touch()


class Policy(POLICIES["flink"]):
    pass
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario beside a module that it names as its policy; the file that tells that it was imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "policy_of_a_file", raising=False)
    (tmp_path / "policy_of_a_file.py").write_text(MODULE)
    with_policy(tmp_path, CODE)
    return tmp_path / "was-imported"


@pytest.mark.parametrize(
    "command",
    [["run"], ["run", "--on-spark"], ["size"], ["size", "--check"], ["tune"], ["compare"]],
    ids=" ".join,
)
@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_file_alone_has_no_code_run(code, capsys, command, form) -> None:
    file = code.with_name(f"job.{form}")
    if form == "json":
        file.write_text(json.dumps({"scenario": tomllib.loads(code.with_name("job.toml").read_text())}))
    reference = [str(FILE.with_suffix(".json"))] if command == ["compare"] else []
    assert main([command[0], str(file), *reference, *command[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"{file}: policy: '{CODE}' is code, and a file must not run code by itself; "
        "give --allow-code if you trust the file\n"
    )
    assert not code.exists()


def test_code_is_run_where_its_user_says_so(code, capsys) -> None:
    file = code.with_name("job.toml")
    assert main(["size", str(file), "--allow-code", "--json"]) == 0
    assert code.exists()
    assert load_scenario(file, allow_code=True).config.debloat_policy == CODE
    capsys.readouterr()


def test_a_policy_on_the_command_line_keeps_that_of_the_file_from_being_imported(code) -> None:
    assert (
        load_scenario(code.with_name("job.toml"), policy="longest-when-unblocked").config.debloat_policy
        == "longest-when-unblocked"
    )
    assert not code.exists()
    assert load_scenario(FILE, policy=CODE).config.debloat_policy == CODE
    assert code.exists()


@pytest.fixture
def stored(code: Path) -> Path:
    """A result of a stranger's, with that policy in its scenario."""
    scenario = load_scenario(FILE)
    named = dataclasses.replace(scenario, config=dataclasses.replace(scenario.config, debloat_policy=CODE))
    file = code.with_name("result.json")
    file.write_bytes(to_json(msgspec.structs.replace(emulate(scenario), scenario=named)))
    return file


def test_a_result_of_a_strangers_is_read_without_running_its_code(code, stored, capsys) -> None:
    result = load_result(stored)
    assert result.scenario.config.debloat_policy == CODE
    assert to_json(result) == stored.read_bytes()
    assert main(["diagnose", str(stored)]) == 0
    assert main(["compare", str(stored), str(FILE.with_suffix(".json"))]) in (0, 1, 2)
    write_report(code.with_name("report"), {"run": result}, command="")
    assert not code.exists()
    with pytest.raises(InputError, match="policy: 'policy_of_a_file:Policy'"):
        load_scenario(stored)
    check_scenario(result.scenario)
    assert code.exists()


def test_a_folder_of_points_names_no_code_to_run(code, stored) -> None:
    point = point_of(load_scenario(FILE), {"setting": "now"})
    row = msgspec.structs.replace(failed_row(point, ""), status="finished", result=stored.read_text())
    find_pitfalls([row])
    assert _made_again(stored.read_text(), "flink").scenario.config.debloat_policy == "flink"
    assert not code.exists()


BAD_POLICY = """
from flowcontrol import DebloatPolicy


class TooLarge(DebloatPolicy):
    def recalculate(self, throughput, channels, now):
        return [(0, 99_999)]
"""


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a process that does not search it for modules, as of an installed command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    return tmp_path


@pytest.mark.parametrize("how", [[], ["--real-time"]], ids=" ".join)
def test_a_size_that_is_not_allowed_is_one_line(
    working_directory: Path, capsys: pytest.CaptureFixture[str], how: list[str]
) -> None:
    (working_directory / "policy_of_a_folder.py").write_text(BAD_POLICY)
    assert main(["run", str(FILE), "--policy", "policy_of_a_folder:TooLarge", *how]) == 2
    line = "netstack: TooLarge announces 99999 bytes; the settings allow 256 to 32768 (in subtask "
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)


def test_a_size_in_force_that_is_no_whole_number_is_one_line(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BAD_POLICY.replace("return", "self.last_announced = 2048.5\n        return")
    (working_directory / "policy_of_fractions.py").write_text(text.replace("[(0, 99_999)]", "()"))
    assert main(["run", str(FILE), "--policy", "policy_of_fractions:TooLarge"]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(
            "netstack: TooLarge.last_announced is 2048.5; it has to be a whole number of bytes (in subtask "
        )
    )


def test_the_module_of_a_policy_may_lie_in_the_working_directory(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "policy_of_a_file_here.py").write_text(MODULE)
    policy = "policy_of_a_file_here:Policy"
    assert main(["run", str(FILE), "--policy", policy]) == 0
    sys.modules.pop("policy_of_a_file_here")
    assert main(["size", str(with_policy(working_directory, policy)), "--allow-code"]) == 0
    assert capsys.readouterr().err == ""


def test_an_import_that_fails_is_of_the_option_or_the_key_that_named_it(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "policy_that_fails.py").write_text("import no_such_module\n")
    policy = "policy_that_fails:Policy"
    why = f"'{policy}' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'\n"
    assert main(["run", str(FILE), "--policy", policy]) == 2
    assert capsys.readouterr().err == f"--policy: {why}"
    file = with_policy(working_directory, policy)
    assert main(["run", str(file), "--allow-code"]) == 2
    assert capsys.readouterr().err == f"{file}: policy: {why}"
