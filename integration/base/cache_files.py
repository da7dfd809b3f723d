"""Cache files in the user's cache folder.

If there is no cache, or a file in it is damaged, the content is computed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .writing import written_whole


def cache_path(*names: str) -> Path:
    """Return a path in this project's cache: ``$XDG_CACHE_HOME/netstack``, or ``~/.cache/netstack``.

    Raises:
        RuntimeError: the user's home is unknown.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "netstack", *names)


def cache_folder(*names: str) -> Path | None:
    """Return a subfolder of the cache, created if missing; None: it cannot be created.

    The user's home itself is not created.
    """
    with suppress(OSError, RuntimeError):
        if not os.environ.get("XDG_CACHE_HOME") and not Path.home().is_dir():
            return None
        folder = cache_path(*names)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return None


def cached_text(key: str, make: Callable[[], str]) -> str:
    """Return `make()`, cached under `key`. The key must contain everything on which the text depends."""
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
