"""Colours of the page of the lab, light and dark: contrasts by WCAG AA, 4.5 for text and 3 for the rest."""

import re
from importlib.resources import files

import pytest

CSS = (files("integration.lab") / "page" / "lab.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{3,6})\b", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)
GROUNDS = ("page", "panel")
TEXTS = [(text, ground) for text in ("text", "quiet", "accent", "alarm") for ground in GROUNDS] + [
    ("page", "alarm"),  # the banner
    ("on-accent", "accent"),
    ("on-barrier", "barrier"),
]
PARTS = [
    *[("field", ground) for ground in GROUNDS],  # borders of inputs
    *[(part, "page") for part in ("busy", "pressured", "barrier", "hot", "accent")],
    *[(part, "page") for part in ("start-delay", "alignment", "sync", "async")],
    ("busy", "idle"),
    *[(f"vertex-{place}", "page") for place in range(8)],
]


def luminance(colour: str) -> float:
    """Of "#rgb" or "#rrggbb", as WCAG defines it."""
    digits = colour.removeprefix("#")
    full = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_is_that_of_wcag() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (PARTS, 3.0)], ids=["texts", "parts"])
def test_colours_are_told_apart(colours: dict[str, str], pairs: list[tuple[str, str]], least: float) -> None:
    all_colours = LIGHT | colours
    ratios = {pair: round(contrast(*(all_colours[name] for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < least} == {}
