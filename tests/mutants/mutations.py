"""Mutants of the source, made by mutmut, in a reproducible random order."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from libcst import FunctionDef, Module
from mutmut.configuration import config
from mutmut.mutation.file_mutation import Mutation, create_mutations


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one function.

    Attributes:
        folder: The folder of the configuration that contains the module.
        path: The module, relative to the root of the checkout.
        function: The function or method.
        line: The line that differs, or the first of them.
        diff: The lines that differ, before and after.
        source: The text of the module with the change.
    """

    folder: str
    path: str
    function: str
    line: int
    diff: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}, {self.function}\n{self.diff}"


def sample(number: int, seed: int) -> Iterator[Mutant]:
    """Yield the first mutants of a random order of all mutants.

    The order depends on the seed alone: a larger sample begins with the same mutants.
    """
    found: list[tuple[str, Path, Module, Mutation]] = []
    for folder in config().source_paths:
        for path in sorted(folder.rglob("*.py")):
            module, mutations, *_ = create_mutations(str(path), path.read_text("utf-8"))
            found += [(str(folder), path, module, each) for each in mutations if _is_in_function(each)]
    random.Random(seed).shuffle(found)
    for each in found[:number]:
        yield _mutant(*each)


def _is_in_function(mutation: Mutation) -> bool:
    """Whether mutmut itself tests this mutation; it leaves out constants and decorated functions."""
    return isinstance(mutation.contained_by_top_level_function, FunctionDef)


def _mutant(folder: str, path: Path, module: Module, mutation: Mutation) -> Mutant:
    function = mutation.contained_by_top_level_function
    changed = module.deep_replace(mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, Module)
    assert function is not None
    before, after = module.code.splitlines(), changed.code.splitlines()
    # Behind two lines of header: "@@ -LINE,COUNT +LINE,COUNT @@", and the lines.
    _, _, place, *lines = difflib.unified_diff(before, after, n=0, lineterm="")
    line = int(place.removeprefix("@@ -").replace(",", " ").split()[0])
    return Mutant(folder, path.as_posix(), function.name.value, line, "\n".join(lines), changed.code)
