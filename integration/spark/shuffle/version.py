"""Which code of ours a process runs, told by what is in our packages or by where they lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from .packaging import PACKAGES


@cache
def code_digest() -> str:
    """Return a digest of the sources of all our packages, in folders or in a zip file."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for name, module in _modules(files(package), package):
            digest.update(f"{name}\n".encode())
            digest.update(module.read_bytes())
    return digest.hexdigest()


def code_version(on_one_machine: bool) -> str:
    """Return what is the same in two processes only if they run the same code of ours.

    It is the digest of the sources; or, if both processes are on one machine, the places of the packages.
    """
    if on_one_machine:
        return " ".join(str(files(package)) for package in PACKAGES)
    return code_digest()


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _modules(entry, f"{name}.{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}.{entry.name}", entry
