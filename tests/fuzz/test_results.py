"""Doors of results, and of measurements of a Flink beside them."""

from __future__ import annotations

import io
import json
from functools import cache

import msgspec
from hypothesis import strategies as st
from rich.console import Console

from integration import load_result, load_scenario
from integration.advise.diagnose.observation import observations
from integration.advise.diagnose.verdict import Diagnosis, diagnose
from integration.base.reading import json_document
from integration.runs.reference_comparison import compare
from integration.runs.result_differences import differences
from integration.show.terminal.comparison import comparison_markdown, print_comparisons, print_differences
from integration.show.terminal.findings import print_diagnosis
from integration.show.terminal.run import print_result
from netstack import InputError, Result, emulate, from_json, to_json
from tests.integration.sample_results import sample_results, unaligned_result

from .damage import ROOT, as_json, documents, door, refused, words_in, written

MEASURED = ("2x2_200KBs_off_interval10s", "2x2_200KBs_unaligned")
FOLDER = ROOT / "tests/data/flink-reference"
REFERENCES = [json.loads((FOLDER / f"{name}.json").read_bytes()) for name in MEASURED]
RESULTS = [json.loads(to_json(result)) for result in (unaligned_result(), *sample_results().values())]
WORDS = words_in(*REFERENCES, *RESULTS)


@cache
def _result(name: str) -> Result:
    """Run the scenario of a measurement."""
    return emulate(load_scenario(FOLDER / f"{name}.toml"))


def _console() -> Console:
    return Console(file=io.StringIO(), width=80)


@door(as_json(documents(RESULTS, WORDS)), 0.5)
def test_results(data: bytes) -> bool:
    """A result can be shown, set beside another one, judged, and written again, or is refused."""
    try:
        result = load_result(written("result.json", data))
    except InputError as error:
        return refused(error)
    assert to_json(from_json(to_json(result))) == to_json(result)
    print_result(result, _console())
    if result.steady:
        differing = differences(("one", result), ("other", unaligned_result()))
        msgspec.json.encode(differing)
        print_differences(differing, _console())
    windows = [diagnose(view) for view in observations(result)]
    print_diagnosis(Diagnosis(name="a", of="b", windows=windows), _console(), following="c", verbose=True)
    return True


@st.composite
def references(draw: st.DrawFn) -> tuple[str, bytes]:
    """The name of a measurement, and a changed form of it."""
    number = draw(st.integers(0, len(MEASURED) - 1))
    return MEASURED[number], draw(as_json(documents(REFERENCES[number : number + 1], WORDS)))


@door(references(), 0.5)
def test_references(name: str, data: bytes) -> bool:
    """A measurement is compared with a result, or is refused."""
    try:
        compared = compare([_result(name)], json_document(written("reference.json", data)))
    except InputError as error:
        return refused(error)
    print_comparisons([compared], _console())
    comparison_markdown([compared])
    msgspec.json.encode(compared)
    return True
