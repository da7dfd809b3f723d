"""A folder for the files of inputs, one for each process, gone with it."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def _folder_of(process: int) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="netstack-fuzz-")


def scratch() -> Path:
    """The folder of this process; what lies in it may be overwritten."""
    return Path(_folder_of(os.getpid()).name)


def tidy() -> None:
    """Delete the folder of this process, which may end without doing so by itself."""
    _folder_of(os.getpid()).cleanup()
    _folder_of.cache_clear()


def written(name: str, data: bytes) -> Path:
    """A file in that folder."""
    path = scratch() / name
    path.write_bytes(data)
    return path
