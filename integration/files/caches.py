"""Files that are made once for a user and used again, in the folder where caches of programs lie.

Nobody notices where there is none, or where it holds something else: what would be in it is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .writing import written_whole


def cache_folder(*names: str) -> Path | None:
    """Return a folder of this project's among a user's caches, made if it is not there; None: it cannot be.

    It is below ``XDG_CACHE_HOME``, by default ``.cache`` in the user's home, where that is there.
    """
    with suppress(OSError, RuntimeError):  # the latter where no home is known
        given = os.environ.get("XDG_CACHE_HOME")
        if not given and not Path.home().is_dir():
            return None
        folder = Path(given or Path.home() / ".cache", "netstack", *names)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return None


def cached_text(key: str, make: Callable[[], str]) -> str:
    """Return what `make` returns, or what it has returned before; `key` says all that this depends on."""
    folder = cache_folder("texts")
    if folder is None:
        return make()
    path = folder / f"{sha256(key.encode()).hexdigest()[:24]}.txt"
    with suppress(OSError, ValueError):
        digest, _, text = path.read_bytes().decode().partition("\n")
        if digest == sha256(text.encode()).hexdigest():
            return text
    text = make()
    with suppress(OSError), written_whole(path) as partial:
        partial.write_bytes(f"{sha256(text.encode()).hexdigest()}\n{text}".encode())
    return text
