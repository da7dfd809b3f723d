"""Whether the core runs compiled, and which compiled modules are out of date.

``make fast`` compiles modules in place, beside their sources. Python prefers the compiled module, so changes
of the source have no effect until it is compiled again.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from . import agenda

__all__ = ["core_is_compiled", "stale_modules"]

_PACKAGES = ("flowcontrol", "buffers", "netstack")

_ROOT = Path(__file__).parents[2]


def core_is_compiled() -> bool:
    """Whether the modules that run once per buffer are compiled."""
    return str(agenda.__file__).endswith(EXTENSION_SUFFIXES[0])


def stale_modules(root: Path = _ROOT) -> list[str]:
    """Return the sources below `root` that are newer than their compiled modules.

    Only checkouts are checked, since an installation writes sources and modules at once, in any order.
    """
    if not (root / "setup.py").is_file():
        return []
    suffix, stale = EXTENSION_SUFFIXES[0], list[str]()
    for package in _PACKAGES:
        for library in sorted((root / package).rglob(f"*{suffix}")):
            source = library.with_name(library.name.removesuffix(suffix) + ".py")
            if source.is_file() and source.stat().st_mtime > library.stat().st_mtime:
                stale.append(str(source.relative_to(root)))
    return stale
