"""Test files in the order in which they are likely to fail for a mutant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

NEAR = 8
"""Lines before and after the mutated one whose words count twice."""


class Relevance:
    """Ranks test files by the words that they share with a module.

    A unit test names what it tests, and few other tests name the same. So a word weighs the more, the fewer
    test files contain it, and short test files precede long ones that share as much.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._words = {path: _words(path.read_text("utf-8")) for path in files}
        self._files_with = Counter(word for words in self._words.values() for word in words)

    def ranked(self, module: str, source: str, line: int) -> list[Path]:
        """Return all test files; the one that is named after the module is first."""
        near = _words("\n".join(source.splitlines()[max(0, line - NEAR - 1) : line + NEAR]))
        wanted = {word: 2 if word in near else 1 for word in _words(source)}
        own = f"test_{module}"
        return sorted(self._words, key=lambda path: (path.stem != own, -self._score(path, wanted), path))

    def _score(self, path: Path, wanted: dict[str, int]) -> float:
        words = self._words[path]
        shared = sum(times / self._files_with[word] for word, times in wanted.items() if word in words)
        return shared / max(1, len(words)) ** 0.5


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w{4,}", text))
