"""A mutant: the packages with one defect, planted in a copy of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.test_layers import ROOT

COPIED = (
    "flowcontrol",
    "buffers",
    "netstack",
    "integration",
    "tests",
    "benches",
    "docs",
    "pyproject.toml",
    "setup.py",
)
"""What a copy consists of: what defects are planted in, and what looks for them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect: in the file `path`, `planted` stands for `sound`, which is there once.

    `defect` says in words what is wrong then. `tests` are the files of tests that are asked first; all of the
    folder of the package follow if they find nothing.
    """

    name: str
    path: str
    sound: str
    planted: str
    defect: str
    tests: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        """The package, or the floor of one, that the defect is in."""
        folder, *rest = self.path.split("/")
        return folder if folder != "netstack" else rest[0]

    @property
    def folder_of_tests(self) -> str:
        """Where the tests of its package are."""
        return f"tests/{self.path.split('/')[0]}"


class UnplantableError(Exception):
    """A defect does not fit the code any more."""


def mutated(mutant: Mutant, source: str) -> str:
    """Return the source of the mutant's file with the defect.

    Raises:
        UnplantableError: What is to be replaced is not there exactly once, or the result is no Python.
    """
    count = source.count(mutant.sound)
    if count != 1:
        raise UnplantableError(
            f"{mutant.name}: {mutant.path} has what is to be replaced {count} times, not once"
        )
    changed = source.replace(mutant.sound, mutant.planted)
    try:
        compile(changed, mutant.path, "exec")
    except SyntaxError as error:
        raise UnplantableError(f"{mutant.name}: {mutant.path} is no Python any more: {error}") from error
    return changed


def copy_into(folder: Path) -> None:
    """Copy the packages and their tests."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(ROOT / name, folder / name)


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """Have a defect in a copy inside.

    Raises:
        UnplantableError: It does not fit the code any more.
    """
    path = copy / mutant.path
    sound = path.read_text("utf-8")
    path.write_text(mutated(mutant, sound), "utf-8")
    try:
        yield
    finally:
        path.write_text(sound, "utf-8")
