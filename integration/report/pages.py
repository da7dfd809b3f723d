"""What all pages have in common: templates, style and script, and the library that draws the pictures."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ..files.caches import cached_text
from .charts import VEGA_LITE
from .panels import Chart


def render_page(template: str, **values: Any) -> str:
    """Return a page as HTML, with style, script and all that it needs inside.

    `template` is the name of a file in ``page``; `values` are its variables, beside those of every page.
    """
    css, script, vega = _inline(_page_file("report.css")), _inline(_page_file("report.js")), _inline(_vega())
    policy = _policy([vega, script], css)
    page = _environment().get_template(template)
    return page.render(css=css, script=script, vega=vega, policy=policy, **values)


def drawing(chart: Chart) -> dict[str, Any]:
    """Return a picture as the script of a page wants it."""
    columns = chart.spec.get("facet", {}).get("column", {}).get("sort", [])
    return {"name": chart.name, "panels": max(1, len(columns)), "spec": chart.spec}


def pretty(document: dict[str, Any]) -> str:
    """Return a document as a page shows it."""
    return json.dumps(document, indent=2, ensure_ascii=False)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "integration", "page"),
        autoescape=select_autoescape(["html", "jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    return environment


def _inline(code: str) -> Markup:
    """Mark code as safe within its own element: nothing in it ends the element early."""
    return Markup(re.sub(r"</(?=script|style)", r"<\\/", code, flags=re.IGNORECASE))


def _policy(scripts: Sequence[str], css: str) -> Markup:
    """What a page may do: run these scripts and no text as code, use this style, show pictures beside it."""
    return Markup(
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(css)}; "
        "img-src 'self' file:; base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    """The source expression of an element with this content."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _unbroken(text: str) -> str:
    """Keep numbers and their units on one line."""
    return re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\N{NO-BREAK SPACE}", text)


def _page_file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")


_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, of the version that the pictures are written for.

    To put it together takes a second, so it is kept.
    """
    return cached_text(
        f"vl-convert {version('vl-convert-python')}, Vega-Lite {VEGA_LITE}: {_SNIPPET}",
        lambda: vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE),
    )
