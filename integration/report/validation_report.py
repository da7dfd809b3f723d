"""The page of a validation: what we predict for a running Flink job, beside what the job shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netstack import Result

from ..analysis.comparison import Comparison
from ..flink import Imported, Validation
from .comparison_text import LEGEND, UNITS, cells_of, verdict
from .job_graph import NOTE, job_graph
from .pages import pretty, render_page
from .tables import versions_text

FLINK, OURS = "Flink", "ours"
"""What the two sides are called."""


def render_validation(
    validation: Validation, imported: Imported, results: Sequence[Result], command: str
) -> str:
    """Return the page as HTML; `results` are those of the imported scenario, one for each seed."""
    runs = {FLINK: [imported.measured.steady], OURS: [result.steady[-1] for result in results]}
    first = results[0]
    return render_page(
        "validation.html.jinja",
        title=f"{imported.scenario.name}: predicted, and measured",
        verdict=verdict([validation.comparison]),
        facts=[("Job", validation.job), ("Flink", f"{validation.flink} at {validation.url}")],
        graph=job_graph(imported.scenario, runs),
        graph_note=f"{FLINK}: what the job shows now; {OURS}: median over seeds. {NOTE}",
        rows=judged_rows(validation.comparison),
        legend=UNITS + LEGEND,
        notes=validation.notes,
        obtained=[
            ("Seeds", ", ".join(map(str, validation.comparison.seeds))),
            ("Emulated", f"{first.emulated_seconds:g} s of {first.clock} time, each"),
            ("Versions", versions_text(first.versions)),
            ("Command", command),
        ],
        scenario=pretty(validation.scenario),
    )


def judged_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the rows of a comparison as a page shows them."""
    return [
        {
            "quantity": row.quantity,
            "about": f"{row.vertex or 'the whole job'}, {row.unit}, {row.window}",
            "cells": list(cells_of(row)),
            "ok": row.ok,
        }
        for row in comparison.rows
    ]
