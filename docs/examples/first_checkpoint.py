"""Time from a restart to the next complete checkpoint, by how in-flight data is restored.

``python docs/examples/first_checkpoint.py docs/images`` writes the picture for docs/CHECKPOINTS.md there and
prints the table. It takes about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import altair as alt

from netstack import (
    AtTime,
    Edge,
    GeneratorSpec,
    KillSubtask,
    NetworkConfig,
    RestartStrategy,
    Scenario,
    SubtaskName,
    Vertex,
    emulate,
)

COMMAND = "python docs/examples/first_checkpoint.py docs/images"
KILLED_S = 30.0
SEEDS = (1, 2, 3)

SOURCES = (2, 32)
"""Numbers of source subtasks: the more channels the two consumers read, the more data is in flight."""

WAYS: dict[str, dict[str, Any]] = {
    "both off": {},
    "only recover-output-on-downstream": {"recover_output_on_downstream": True},
    "both on": {"recover_output_on_downstream": True, "checkpoints_during_recovery": True},
}
COLOURS = ("#0072b2", "#e69f00", "#009e73")


class Found(NamedTuple):
    """Bytes in flight in the restored checkpoint, and seconds from the restart to the next complete one."""

    in_flight: int
    first_s: float


def job(sources: int, seed: int, **options: Any) -> Scenario:
    """Sources as fast as they can be, and two consumers of 200 records a second, one of which is killed."""
    return Scenario(
        name="first checkpoint",
        duration_s=KILLED_S + 30.0,
        seed=seed,
        config=NetworkConfig(
            checkpoint_interval_s=1.0,
            unaligned_enabled=True,
            restart_strategy=RestartStrategy.FIXED_DELAY,
            restart_attempts=1,
            **options,
        ),
        vertices=(
            Vertex(name="source", parallelism=sources, source=GeneratorSpec(record_bytes=1020)),
            Vertex(name="consumer", parallelism=2, service=((0.0, 0.005),)),
        ),
        edges=(Edge(source="source", target="consumer"),),
        faults=(KillSubtask(when=AtTime(KILLED_S), subtask=SubtaskName("consumer", 0)),),
    )


def found(sources: int, seed: int, **options: Any) -> Found:
    """Run the job, and return the figures of its restart."""
    result = emulate(job(sources, seed, **options))
    (restart,) = result.restarts
    assert restart.restarted_at is not None
    ends = [each.t + each.duration_ms / 1e3 for each in result.checkpoints if each.duration_ms is not None]
    first = min(end for end in ends if end > restart.restarted_at)
    return Found(restart.persisted_bytes, first - restart.restarted_at)


def picture(rows: list[dict[str, Any]]) -> alt.Chart:
    """A bar for each amount in flight and each way to restore it."""
    bars = alt.Chart(alt.Data(values=rows)).encode(
        alt.X(
            "seconds:Q", title="from the restart to the next complete checkpoint (s)", scale=alt.Scale(nice=4)
        ),
        alt.Y("way:N", title=None, sort=list(WAYS), axis=alt.Axis(labelLimit=220)),
    )
    colour = alt.Color("way:N", scale=alt.Scale(domain=list(WAYS), range=COLOURS), legend=None)
    labels = bars.mark_text(align="left", dx=4).encode(alt.Text("seconds:Q", format=".1f"))
    layers = alt.layer(bars.mark_bar().encode(colour), labels).properties(width=480, height=80)
    title = alt.TitleParams("The first checkpoint after a restart", subtitle=COMMAND)
    header = alt.Header(labelFontSize=12, labelAnchor="start")
    row = alt.Row("in_flight:N", title=None, sort=[row["in_flight"] for row in rows], header=header)
    return layers.facet(row=row).properties(title=title)


def main(folder: Path) -> None:
    """Write the picture and print the table."""
    rows = []
    print(f"| in flight | {' | '.join(WAYS)} |")
    print(f"|---:|{'---:|' * len(WAYS)}")
    for sources in SOURCES:
        figures = []
        for way, options in WAYS.items():
            runs = [found(sources, seed, **options) for seed in SEEDS]
            amount = f"{median(run.in_flight for run in runs) / 1e6:.1f} MB"
            figures.append(median(run.first_s for run in runs))
            rows.append({"in_flight": f"{amount} in flight", "way": way, "seconds": figures[-1]})
        print(f"| {amount} | {' | '.join(f'{seconds:.1f} s' for seconds in figures)} |", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    chart = picture(rows).configure_view(stroke="#ccc").configure_axis(titleFontWeight="normal")
    chart.properties(padding=14, background="white").save(
        str(folder / "first-checkpoint.png"), scale_factor=2
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
