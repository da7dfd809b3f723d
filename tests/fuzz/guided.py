"""The same targets, with inputs from Atheris (libFuzzer), which looks for those that reach new code.

Atheris is no dependency of the project; it needs an environment of its own::

    python3.11 -m venv /tmp/atheris && /tmp/atheris/bin/pip install atheris msgspec
    /tmp/atheris/bin/python -m tests.fuzz.guided -runs=1000000 CORPUS_FOLDER

The folder keeps what was found for the next run; an empty one is filled from `inputs` first. An input has the
bytes in front, and behind them what libFuzzer takes numbers from: target, limit and cuts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["flowcontrol"]):
    from .inputs import LIMITS, Inputs
    from .targets import TARGETS

_NAMES = sorted(TARGETS)
_SEEDS = 300


def check_one(data: bytes) -> None:
    """Run one input of libFuzzer."""
    provider = atheris.FuzzedDataProvider(data)
    name = _NAMES[provider.ConsumeIntInRange(0, len(_NAMES) - 1)]
    limit = LIMITS[provider.ConsumeIntInRange(0, len(LIMITS) - 1)]
    draws = [provider.ConsumeIntInRange(0, 255) for _ in range(provider.ConsumeIntInRange(0, 4))]
    rest = provider.ConsumeBytes(provider.remaining_bytes())
    TARGETS[name](rest, sorted(draw * len(rest) // 256 for draw in draws), limit)


def fill(folder: Path) -> None:
    """Begin with inputs that are mostly right."""
    inputs = Inputs(0)
    for index in range(_SEEDS):
        each = inputs.next()
        choices = bytes((len(each.cuts) % 4, LIMITS.index(each.max_frame_bytes), _NAMES.index(each.target)))
        (folder / f"first-{index}").write_bytes(each.data + bytes((200, 100, 50, 10)) + choices)


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            fill(folder)
    atheris.Setup(sys.argv, check_one)
    atheris.Fuzz()
