"""The picture of "Slow at the peak" in docs/TUTORIAL.md: checkpoints of a real job before and after a change.

``python docs/examples/slow_at_the_peak.py docs/images`` writes it. ``peaks.json`` beside this program has the
time and the duration in ms of each checkpoint, as ``python -m tests.flink past peaks`` measured them.
"""

from __future__ import annotations

import json
import sys
from math import pi, sin
from pathlib import Path

import altair as alt

MEAN_PER_S, LIMIT_PER_S, WAVE_S, SECONDS = 160.0, 250.0, 240.0, 290
ORANGE, BLUE, GREY = "#e69f00", "#0072b2", "#808080"
NAMES = {"before": "debloating off", "after": "debloat target of 200 ms"}


def picture() -> alt.VConcatChart:
    """The load above, the durations of checkpoints below."""
    measured = json.loads((Path(__file__).parent / "peaks.json").read_text("utf-8"))
    load = [{"t": at, "rate": MEAN_PER_S * (1 + sin(2 * pi * at / WAVE_S))} for at in range(SECONDS + 1)]
    took = [
        {"t": at, "took": ms / 1e3, "setting": NAMES[name]}
        for name, rows in measured.items()
        for at, ms in rows
    ]
    time = alt.X("t:Q", title="time, seconds", scale=alt.Scale(domain=[0, SECONDS]))
    rates = alt.Chart(alt.Data(values=load)).mark_line(color=GREY)
    limit = alt.Chart(alt.Data(values=[{"rate": LIMIT_PER_S}])).mark_rule(strokeDash=[4, 3])
    above = alt.layer(
        rates.encode(time, alt.Y("rate:Q", title="records/s arriving")), limit.encode(y="rate:Q")
    )
    colour = alt.Color(
        "setting:N", scale=alt.Scale(domain=list(NAMES.values()), range=[ORANGE, BLUE]), title=None
    )
    below = alt.Chart(alt.Data(values=took)).mark_line(point=True, clip=True)
    below = below.encode(time, alt.Y("took:Q", title="checkpoint, seconds"), colour)
    title = alt.TitleParams(
        "Checkpoints of a real job whose load rises above its limit",
        subtitle="Dashed: what a subtask can process",
    )
    return alt.vconcat(
        above.properties(width=760, height=110), below.properties(width=760, height=190)
    ).properties(title=title)


def main(folder: Path) -> None:
    """Write the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    chart = (
        picture().configure_view(stroke="#ccc").configure_axis(gridColor="#e6e6e6", titleFontWeight="normal")
    )
    chart.properties(padding=14, background="white").save(
        str(folder / "slow-at-the-peak.png"), scale_factor=2
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
