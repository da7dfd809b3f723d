"""Results as JSON documents, and back."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ScenarioError
from ..scenarios.documents import Document, read_scenario, scenario_document
from .result import SCHEMA, Result, Run
from .result_rules import result_problem


class _Document(Run[Document], frozen=True, kw_only=True):
    """A result as JSON has it: with the document of its scenario."""


def to_json(result: Result) -> bytes:
    """Encode a result; equal results give equal bytes."""
    values: dict[str, Any] = msgspec.structs.asdict(result)
    return msgspec.json.encode(_Document(**values | {"scenario": scenario_document(result.scenario)}))


def from_json(document: bytes | str) -> Result:
    """Decode a result; nothing that its scenario names is imported, so it may be anybody's.

    Raises:
        ValueError: it is not JSON, not a result of this schema, its scenario makes no sense, or it is not one
            of that scenario; the message says where.
    """
    decoded = msgspec.json.decode(document, type=_Document)
    if decoded.schema != SCHEMA:
        raise ValueError(f"the document has the schema {decoded.schema!r}; this version reads {SCHEMA!r}")
    try:
        scenario = read_scenario(decoded.scenario, to_run=False)
    except ScenarioError as error:
        problems = "; ".join(error.problems)
        raise ValueError(f"the scenario in the result makes no sense: {problems}") from None
    result = Result(**msgspec.structs.asdict(decoded) | {"scenario": scenario})
    problem = result_problem(result)
    if problem is not None:
        raise ValueError(f"the result makes no sense: {problem}")
    return result
