"""Test files in the order in which they are likely to fail for a mutant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


class Relevance:
    """Ranks test files by the words that they share with a module, and rare words count for more.

    A unit test names what it tests, and few other tests name the same.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._words = {path: _words(path.read_text("utf-8")) for path in files}
        self._files_with = Counter(word for words in self._words.values() for word in words)

    def ranked(self, source: str, function: str) -> list[Path]:
        """Return all test files, those first that share most with a module and one of its functions."""
        lines = source.splitlines()
        wanted = Counter(dict.fromkeys(_words(source), 1))
        wanted.update(_words("\n".join(line for line in lines if function in line)))
        return sorted(self._words, key=lambda path: (-self._shared(wanted, self._words[path]), path))

    def _shared(self, wanted: Counter[str], words: frozenset[str]) -> float:
        return sum(times / self._files_with[word] for word, times in wanted.items() if word in words)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w{4,}", text))
