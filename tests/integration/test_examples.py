"""The examples of the documentation do what they say."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

TEXT = """the quick brown fox
jumps over the lazy dog

The dog sleeps and the fox does not
"""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_odd_and_even() -> None:
    assert example("odd_and_even").odd_and_even(1000) == {"odd": 500_000, "even": 501_000}


@pytest.mark.spark
def test_word_count(tmp_path: Path, spark: object) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("line\n" + TEXT)
    counted = example("word_count").word_count(str(lines))
    assert counted == Counter(TEXT.lower().split())
