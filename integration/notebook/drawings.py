"""Pictures of reports as altair charts, and as SVG that takes the colours of the page around it."""

from __future__ import annotations

import re
from hashlib import sha256
from textwrap import wrap
from typing import Any

import altair as alt
import vl_convert

from ..report.charts import FONT, VEGA_LITE, drawable
from ..report.panels import Chart

_TITLE_LETTERS = 100
_PAGE = "currentColor"

_CONFIG = {
    "background": None,
    "font": FONT,
    "title": {
        "color": _PAGE,
        "subtitleColor": _PAGE,
        "anchor": "start",
        "fontSize": 14,
        "subtitleFontSize": 11,
    },
    "axis": {
        "labelColor": _PAGE,
        "titleColor": _PAGE,
        "titleFontWeight": "normal",
        "domainColor": _PAGE,
        "tickColor": _PAGE,
        "gridColor": _PAGE,
        "gridOpacity": 0.15,
    },
    "header": {"labelColor": _PAGE, "titleColor": _PAGE},
    "legend": {"labelColor": _PAGE, "titleColor": _PAGE},
    "text": {"color": _PAGE},
    "view": {"stroke": _PAGE, "strokeOpacity": 0.3},
}

_SCALED = "max-width: 100%; height: auto; overflow: visible"

_ID = re.compile(r'(?<= id=")[^"]+(?=")')


def as_altair(chart: Chart) -> Any:
    """Return a picture, with its title, as a chart that can be changed and shown."""
    return alt.Chart.from_dict(chart.spec | {"title": _title(chart)})


def inline_svg(chart: Chart) -> str:
    """Return a picture, with its title, as an SVG element that scales with the page."""
    spec = drawable(chart.spec | {"title": _title(chart)})
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, config=_CONFIG)
    return _with_unique_ids(svg).replace("<svg ", f'<svg style="{_SCALED}" ', 1)


def _title(chart: Chart) -> dict[str, Any]:
    return {"text": wrap(chart.title, _TITLE_LETTERS), "subtitle": wrap(chart.note, _TITLE_LETTERS)}


def _with_unique_ids(svg: str) -> str:
    """Name what an SVG refers to so that no other one in the same notebook has it."""
    digest = sha256(svg.encode()).hexdigest()[:12]
    for name in dict.fromkeys(_ID.findall(svg)):
        unique = f"{digest}-{name}"
        svg = svg.replace(f' id="{name}"', f' id="{unique}"').replace(f"#{name})", f"#{unique})")
        svg = svg.replace(f'href="#{name}"', f'href="#{unique}"')
    return svg
