"""The command ``netstack --install-completion``: lets a shell complete commands and their options."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from netstack import ScenarioError

from ..base.errors import OutputError
from ..show.terminal.console import say

Shell = Literal["bash", "zsh", "fish"]

ZSH_LINES = """
# netstack completions
fpath=({folder} $fpath)
if (( $+functions[compdef] )); then
  autoload -Uz {function} && compdef {function} netstack
else
  autoload -Uz compinit && compinit
fi
"""
"""Lines to append to zsh's start-up file. They work whether or not earlier lines have initialised
completions.
"""


def install_completion(*, shell: Shell | None = None) -> int:
    """Make this shell complete commands and options, by a line in its start-up file.

    Args:
        shell: bash, zsh or fish; by default the shell that runs this command.
    """
    from .app import app  # imported here, because that module calls this one by name

    found: Shell | Literal["powershell"] | None = shell
    if found is None:
        from cyclopts.completion.detect import ShellDetectionError, detect_shell  # here, since few need it

        with suppress(ShellDetectionError):
            found = detect_shell()
    if found is None or found == "powershell":
        named = found or "not known"
        line = f"the shell is {named}, for which there is no completion; give bash, zsh or fish with --shell"
        raise ScenarioError([f"netstack --install-completion: {line}"])
    try:
        script = app.install_completion(shell=found, add_to_startup=found == "bash")
        if found == "zsh":
            file = Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc"
            lines = ZSH_LINES.format(folder=script.parent, function=script.name)
            if not file.exists() or lines not in file.read_text("utf-8"):
                with file.open("a", encoding="utf-8") as zshrc:
                    zshrc.write(lines)
    except OSError as error:
        raise OutputError(f"{error.filename}: cannot be written: {error.strerror}") from None
    say(f"wrote {script}; shells that you start from now on complete the commands of netstack")
    return 0
