"""Arguments of commands: shared options, their parsing, and the command line as text."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import CoercionError, CycloptsError, Parameter, Token, UnusedCliTokensError

from .option_names import SET, Sets


def _whole(wanted: type, tokens: Sequence[Token]) -> int:
    """Read a whole number. Cyclopts itself would round "1.5"."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise CoercionError(token=tokens[0], target_type=wanted) from None


Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Whole = Annotated[int, Parameter(converter=_whole)]

Several = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]
"""An option that may be repeated."""

Verbose = Annotated[
    bool,
    Parameter(
        negative=(), show_default=False, help="Print all findings, figures and rules behind the result."
    ),
]

Settings = Annotated[tuple[str, ...], Parameter(name=SET, negative=(), show_default=False), Sets("options")]
"""Texts OPTION=VALUE, for `netstack.split_assignment`."""

AllowCode = Annotated[
    bool,
    Parameter(
        negative=(),
        show_default=False,
        help="Allow the file to name a debloat policy as MODULE:CLASS; the module is imported, so its "
        "code runs.",
    ),
]

if TYPE_CHECKING:
    from ..base.errors import UsageError

T = TypeVar("T")

HEADER, METRICS_HEADER = "--header", "--metrics-header"
"""The options that may contain a secret. Their values are never shown."""

_QUERY = re.compile(r"^(https?://[^?#]*)[?].*")

_NEGATIVE = re.compile(r"-[0-9.]")

_given: list[str] = []


def set_arguments(arguments: Sequence[str] | None) -> list[str]:
    """Store the arguments of this call, by default those of the process, and return them."""
    global _given
    _given = list(sys.argv[1:] if arguments is None else arguments)
    return _given


def command_line() -> str:
    """Return the command with its arguments, quoted for a shell; secrets are replaced by dots."""
    return shlex.join(["netstack", *map(_without_secret, ["", *_given], _given)])


def _without_secret(option: str, argument: str) -> str:
    """Return an argument without secrets; `option` is the argument before it."""
    name, is_assigned, value = argument.partition("=")
    if is_assigned and name in (HEADER, METRICS_HEADER):
        return f"{name}={_header_without_value(value)}"
    if option in (HEADER, METRICS_HEADER):
        return _header_without_value(argument)
    return _QUERY.sub(r"\1?...", argument)


def _header_without_value(text: str) -> str:
    """Return the name in a header "Name: value". A file of headers, "@FILE", is shown as it is."""
    return text if text.startswith("@") else f"{text.partition(':')[0]}: ..."


def usage_problem(error: CycloptsError, arguments: Sequence[str]) -> str:
    """Return the message about arguments that could not be read; `arguments` are those after ``netstack``."""
    header = next((each for each in (HEADER, METRICS_HEADER) if each in arguments), None)
    if isinstance(error, UnusedCliTokensError) and header is not None:
        return f'netstack {arguments[0]}: too many arguments; write {header} "Name: value" in quotes'
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        extra = ", ".join(map(repr, error.unused_tokens))
        return f"netstack {' '.join(arguments[:1])}: {extra}: too many arguments; remove this"
    from ..base.reading import one_line  # imported here, like those below: help must not need them

    said = one_line(error)
    for option, value in pairwise(arguments):
        if said.endswith(f"parameter {option} requires an argument.") and _NEGATIVE.match(value):
            return f"netstack {arguments[0]}: {option}: {value!r} is negative; it must be positive"
    return f"netstack: {said}"


def warn_of_bare_numbers(beginning: str, settings: Sequence[str]) -> None:
    """Report on stderr how values without a unit are interpreted. `settings` are texts OPTION=VALUE or
    OPTION=V1,V2.

    Mistakes in values are not reported here, but when the command uses the options.
    """
    from netstack import NetworkConfig, Section, read_options, split_assignment

    from ..show.terminal.console import say

    for name, values in filter(None, map(split_assignment, settings)):
        for value in values.split(","):
            option = Section({name: value}, "", [])
            read_options(option, NetworkConfig())
            for notice in option.notices:
                say(f"{beginning} {notice}")


def usage_error(command: str, problem: str) -> UsageError:
    """Return the error for a mistake in the arguments of a command."""
    from ..base.errors import UsageError

    return UsageError([f"netstack {command}: {problem}"])


MOST = 100_000
"""Maximum number of seeds or runs."""


def require_some(command: str, option: str, number: int, most: int = MOST) -> None:
    """Reject a number of runs below 1, or of more than `most`.

    Raises:
        UsageError: the number is out of range; the message names the command and the option.
    """
    if not 1 <= number <= most:
        bound = "at least 1" if number < 1 else f"at most {most:,}"
        raise usage_error(command, f"{option} is {number}; it must be {bound}")


def check_policies(command: str, names: Sequence[str]) -> None:
    """Import the debloating policies of the option ``--policy``.

    Raises:
        UsageError: a policy does not exist or cannot be created.
    """
    from netstack import NetworkConfig, policy_problems

    from ..base.errors import UsageError

    problems = [
        f"netstack {command}: --policy: {text}"
        for name in dict.fromkeys(names)
        for _, text in policy_problems(NetworkConfig(debloat_enabled=True, debloat_policy=name))
    ]
    if problems:
        raise UsageError(problems)


def read_quantity(command: str, option: str, text: str, read: Callable[[str], T]) -> T:
    """Parse the text of an option with `read`.

    Raises:
        UsageError: the text is invalid; the message names the command and the option.
    """
    from netstack import QuantityError

    try:
        return read(text)
    except QuantityError as error:
        raise usage_error(command, f"{option}: {error.wrong}; it must be {error.right}") from None
