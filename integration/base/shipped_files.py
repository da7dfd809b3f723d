"""Files installed beside the code: examples, documentation, the schema, the man page.

A wheel installs them below ``share`` of the environment. In a checkout they are in ``share`` and ``docs``.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from .extras import CHECKOUT

_DOCS = "share/doc/netstack"


def shipped(name: str) -> Path:
    """Return the path of a file that is installed as `name`, such as "share/netstack/scenario.schema.json".

    Raises:
        FileNotFoundError: It is missing, for example if only the packages were copied.
    """
    inside = f"docs{name.removeprefix(_DOCS)}" if name.startswith(_DOCS) else name
    if CHECKOUT is not None and (CHECKOUT / inside).exists():
        return CHECKOUT / inside
    try:
        for file in files("netstack") or ():
            if file.as_posix().endswith(name):
                return Path(str(file.locate())).resolve()
    except PackageNotFoundError:
        pass
    raise FileNotFoundError(f"{name}: is not installed here; it is part of the wheel of netstack")


def example(name: str) -> str:
    """Return the path of an example, such as "pitfalls/slow_input.toml".

    It is relative to the working directory if the example lies below.
    """
    try:
        path = shipped(f"{_DOCS}/examples/{name}")
    except FileNotFoundError:
        return f"docs/examples/{name}"
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
