"""Names of options in messages: a library names its parameters, and the command line its options.

Which option sets which parameter follows from the declarations of the running command. A library names a
parameter in a `Note`, in back-ticks, or at the beginning of a line of a `UsageError`, such as "seeds: is 0".
A parameter that no option of the command sets keeps its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, get_args

from cyclopts import App

if TYPE_CHECKING:
    from netstack import InputError

    from ..base.errors import Parameter

_UNIT = "_s"
"""End of the names of parameters in seconds. Options take a time with its unit, and do not name one."""

_IN_TICKS = re.compile(r"`(\w+)`")
_AT_BEGINNING = re.compile(r"(\w+)(\.|(?=: | is |=))")
"""A parameter, or a parameter and a dot, before the name of one of its entries."""


@dataclass(frozen=True, slots=True)
class Sets:
    """In an annotation of an option: the parameter that it sets, if that has another name."""

    parameter: str


SET = "--set"
"""The option for texts OPTION=VALUE. A message may name an entry of the parameter that it sets."""

IMPORT = "import-flink"
"""The command with an option for each parameter that a `Note` names. Other commands show its notes, too."""

_command: str | None = None
_app = App()


def run_command(name: str | None, app: App) -> None:
    """Name options as this command of `app` declares them; None: keep the names of parameters."""
    global _command, _app
    _command, _app = name, app


def option_for(parameter: str) -> str:
    """Return the option of the running command that sets a parameter, else the parameter's name."""
    return _option(parameter) or parameter


def naming_options(line: str) -> str:
    """Return a line of a library with options in place of parameters, in a `Note` or in back-ticks."""
    from ..base.errors import Note  # imported here, because help must not need it

    line = line.naming(_with_example) if isinstance(line, Note) else line
    return _IN_TICKS.sub(lambda found: _option(found[1]) or found[0], line)


def usage_line(line: str) -> str:
    """Return a line about a wrong argument, with the running command and its option at the beginning."""
    if line.startswith("netstack ") or _command is None:
        return naming_options(line)
    found = _AT_BEGINNING.match(line)
    if found is not None and (option := _option(found[1])) and (option == SET or not found[2]):
        line = option + found[2].replace(".", " ") + line[found.end() :]
    return f"netstack {_command}: {naming_options(line)}"


def problems_of(error: InputError) -> tuple[str, ...]:
    """Return the lines of an error as the command line prints them."""
    from flowcontrol import readable

    from ..base.errors import EndedJobError, FlinkRestError, UsageError

    if isinstance(error, EndedJobError):
        return tuple(f"{problem} netstack diagnose reads jobs that have ended." for problem in error.problems)
    if isinstance(error, FlinkRestError):
        return tuple(readable(naming_options(note)) for note in error.notes)
    return tuple(map(usage_line if isinstance(error, UsageError) else naming_options, error.problems))


def _option(parameter: str, *commands: str) -> str | None:
    """Return the option of the first of these commands that has one, by default of the running command."""
    for command in commands or filter(None, [_command]):
        options = _options(command)
        if option := options.get(parameter) or options.get(parameter.removesuffix(_UNIT)):
            return option
    return None


@cache
def _options(command: str) -> Mapping[str, str]:
    """Return the options of a command by the names of the parameters that they set."""
    found: dict[str, str] = {}
    for argument in _app[command].assemble_argument_collection():
        if argument.name.startswith("--"):
            found[argument.field_info.name] = argument.name
            for extra in get_args(argument.field_info.annotation):
                if isinstance(extra, Sets):
                    found[extra.parameter] = argument.name
    return found


def _with_example(parameter: Parameter) -> str:
    """Return the option for a parameter, with an example value if there is one."""
    from netstack import format_duration

    option, value = _option(parameter.name, _command or IMPORT, IMPORT) or parameter.name, parameter.example
    if value is None:
        return option
    text = format_duration(float(value)) if parameter.name.endswith(_UNIT) else str(value)
    if parameter.of:
        text = f"{parameter.of}{'=' if option == SET else ':'}{text}"
    return f"{option} {shlex.quote(text)}"
