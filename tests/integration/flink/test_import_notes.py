"""Notes and errors of an import: parameters in Python, options on the command line."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from integration.base.errors import FlinkRestError, Note, Parameter, ParameterName
from integration.cli.app import app
from integration.cli.option_names import IMPORT, naming_options, option_for, problems_of, run_command
from integration.flink import Access, Overrides, Past
from integration.flink.fit import words

NOTE = Note("source: too little.", Parameter("rate", 100, of="source"), advice="Wait, or use {}.")


def test_parameters_are_those_of_an_import() -> None:
    fields = [field.name for kind in (Overrides, Access) for field in dataclasses.fields(kind)]
    of_metrics = [f"metrics_{field.name}" for field in dataclasses.fields(Access)]
    of_past = ["begin_s", "for_s"]
    expected = ["job", "watch_s", *fields, *of_metrics, *of_past]
    assert sorted(get_args(ParameterName)) == sorted(expected)
    assert set(of_past) < set(Past.__struct_fields__)


@pytest.fixture(autouse=True)
def _running() -> Iterator[None]:
    run_command(IMPORT, app)
    yield
    run_command(None, app)


def test_every_parameter_has_an_option() -> None:
    assert [name for name in get_args(ParameterName) if not option_for(name).startswith("--")] == []


@pytest.mark.parametrize(
    ("parameter", "python", "option"),
    [
        (Parameter("latency_s"), "latency_s", "--latency"),
        (Parameter("service_s", 0.005, of="a b"), "service_s={'a b': 0.005}", "--service 'a b:5 ms'"),
        (Parameter("service_mode", "burn", of=""), "service_mode={'': 'burn'}", "--service-mode burn"),
        (Parameter("options", "1 s", of="a.b"), "options={'a.b': '1 s'}", "--set 'a.b=1 s'"),
        (Parameter("headers"), "headers", "--header"),
    ],
)
def test_examples(parameter: Parameter, python: str, option: str) -> None:
    assert str(parameter) == python
    assert naming_options(Note("a", parameter)) == f"a Set {option} to override."


def test_a_note_names_parameters_and_the_command_line_options() -> None:
    assert str(NOTE) == "source: too little. Wait, or use rate={'source': 100}."
    assert naming_options(NOTE) == "source: too little. Wait, or use --rate source:100."
    assert naming_options("as it is {}") == "as it is {}"
    assert Note("{}", Parameter("job")) == "{} Set job to override."


def test_every_remark_has_a_sentence_and_every_sentence_a_remark() -> None:
    folder = Path(words.__file__).parent.parent
    sources = [file.read_text() for file in folder.rglob("*.py") if file.name != "words.py"]
    made = {kind for source in sources for kind in re.findall(r'Remark\("(\w+)"', source)}
    named = {name for source in sources for name in re.findall(r'"(\w+)"', source)}
    assert len(made) > 20
    assert made <= set(words.SENTENCES) <= named


def test_an_error_keeps_its_notes() -> None:
    error = pickle.loads(pickle.dumps(FlinkRestError(NOTE.after("here: "), "a\nb")))
    assert error.problems == ("here: " + NOTE, "a\\nb")
    assert problems_of(error) == ("here: source: too little. Wait, or use --rate source:100.", "a\\nb")
