"""The page of scenario files has every key that is read, and no other."""

import importlib.util
from types import ModuleType

from netstack import EdgeBuffers, Keys
from netstack.scenarios.tables import all_keys
from tests.code_in_documents import ROOT

PAGE = (ROOT / "docs/reference/SCENARIO_FILES.md").read_text("utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scenario_page", ROOT / ".ci" / "scenario_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_page_are_those_of_the_declarations() -> None:
    assert generator().page(PAGE) == PAGE, "run 'make share'"


def test_every_key_says_what_it_means() -> None:
    tables = [*generator().TABLES.values(), EdgeBuffers, Keys]
    assert [(table.__name__, key.name) for table in tables for key in all_keys(table) if not key.doc] == []
