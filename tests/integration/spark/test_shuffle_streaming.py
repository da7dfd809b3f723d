"""A shuffle of each micro-batch of a Structured Streaming query."""

import json
import os
import random
import runpy
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.clusters import ROOT

pytestmark = pytest.mark.spark

EXAMPLE = ROOT / "docs" / "examples" / "shuffle_stream.py"

CITIES = ("Aachen", "Bonn", "Köln", "Ulm", "")


def write_file(folder: Path, number: int, draw: random.Random) -> Counter[str]:
    """Write a file of rows, which are read in the order of their numbers; returns each city's passengers."""
    path = folder / f"{number}.json"
    rows = [{"city": draw.choice(CITIES), "passengers": draw.randrange(1, 9)} for _ in range(200)]
    path.write_text("\n".join(map(json.dumps, rows)))
    os.utime(path, (number, number))
    passengers = Counter[str]()
    for row in rows:
        passengers[row["city"]] += row["passengers"]
    return passengers


def test_the_example_has_the_totals_of_each_city_after_each_batch(spark, tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    draw = random.Random(7)
    files = [write_file(folder, number, draw) for number in range(6)]
    expected = [dict(sum(files[:number], Counter[str]())) for number in (2, 4, 6)]
    totals = runpy.run_path(str(EXAMPLE))["totals"]
    assert totals(str(folder)) == expected
