"""Completion in the shells that there are here: installed into an empty home, and asked as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts.completion.detect import ShellDetectionError

from integration.cli.app import main
from integration.cli.exit_status import MISTAKE

ROOT = Path(__file__).parents[3]

BASH = """
source {home}/.bashrc
COMP_WORDS=({words}) COMP_CWORD={last}
_netstack
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

FISH = "complete -C '{line}'"

ZSH = r"""
zmodload zsh/zpty
zpty -b shell "zsh -i"
zpty -w shell "PS1='READY> '; bindkey '^I' complete-word; bindkey '^U' kill-whole-line; print -n BEG''UN"
zpty -r -m shell line '*BEGUN*'
zpty -w -n shell $'{line}\t\x15print -n E\'\'ND\n'
zpty -r -m shell line '*END*'
[[ $line == *{expected}* ]] && print -r -- {expected}
zpty -d shell
"""
"""A line is typed into a shell in a terminal, completed, and taken back, before the shell says END."""

LINES = {
    "netstack tu": "tune",
    "netstack tune --max-ch": "--max-checkpoint",
    "netstack run --real": "--real-time",
}


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


def environment(home: Path, name: str) -> dict[str, str]:
    """Of a user with an empty home whose shell is of this name."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ZDOTDIR"))}
    return kept | {"HOME": str(home), "SHELL": f"/bin/{name}", "PATH": path, "TERM": "dumb"}


def install(home: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "integration", "--install-completion", "--shell", name],
        cwd=ROOT,
        env=environment(home, name),
        capture_output=True,
        text=True,
        check=True,
    )


def completions(home: Path, name: str, line: str, expected: str) -> list[str]:
    """What a new shell of a user offers for the end of a line."""
    words = line.split()
    program = {"bash": BASH, "fish": FISH, "zsh": ZSH}[name].format(
        home=home, words=" ".join(words), last=len(words) - 1, line=line, expected=expected
    )
    ran = subprocess.run(
        [shell(name), *(["-f"] if name == "zsh" else []), "-c", program],
        cwd=home,
        env=environment(home, name),
        capture_output=True,
        text=True,
        check=False,
    )
    return [offer.split("\t")[0] for offer in ran.stdout.splitlines()]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_new_shell_completes_commands_and_options(name: str, tmp_path: Path) -> None:
    shell(name)
    said = install(tmp_path, name)
    assert said.stdout == ""
    assert said.stderr.startswith("wrote ")
    assert {line: completions(tmp_path, name, line, word) for line, word in LINES.items()} == {
        line: [word] for line, word in LINES.items()
    }


@pytest.mark.parametrize("before", ["", "autoload -Uz compinit && compinit -u\n"])
def test_zsh_completes_wherever_its_start_up_file_looks_for_completions(before: str, tmp_path: Path) -> None:
    shell("zsh")
    (tmp_path / ".zshrc").write_text(before)
    install(tmp_path, "zsh")
    once = (tmp_path / ".zshrc").read_text()
    install(tmp_path, "zsh")
    assert once.startswith(before)
    assert (tmp_path / ".zshrc").read_text() == once
    assert completions(tmp_path, "zsh", "netstack tu", "tune") == ["tune"]


@pytest.mark.parametrize(("found", "words"), [("powershell", "powershell"), ("", "not known")])
def test_a_shell_that_is_not_known_is_asked_for(
    found: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def detected() -> str:
        if not found:
            raise ShellDetectionError
        return found

    monkeypatch.setattr("cyclopts.completion.detect.detect_shell", detected)
    assert main(["--install-completion"]) == MISTAKE
    assert capsys.readouterr().err == (
        f"netstack --install-completion: the shell is {words}, for which there is no completion; give "
        "bash, zsh or fish with --shell\n"
    )
