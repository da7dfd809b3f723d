"""What docs/CONCEPTS.md says of its pictures is what they are made of."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from integration.show.charts.run_charts import checkpoint_history
from netstack import NetworkConfig, emulate
from tests.integration.axes import axes_of, has_unit

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    sys.path.insert(0, str(DOCS / "examples"))
    try:
        spec = importlib.util.spec_from_file_location("pictures", DOCS / "examples" / "concept_pictures.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS / "examples"))
    module.emulate = cache(emulate)  # each scenario once for all tests
    return module


def test_every_picture_is_made_and_shown(pictures: ModuleType) -> None:
    page = (DOCS / "CONCEPTS.md").read_text("utf-8")
    for name, picture in pictures.PICTURES.items():
        assert f"](images/{name}.png)" in page
        assert (DOCS / "images" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        spec = picture().to_dict()
        assert pictures.COMMAND in spec["title"]["subtitle"]


def test_every_axis_with_numbers_has_a_unit(pictures: ModuleType) -> None:
    titles = {name: list(axes_of(picture().to_dict())) for name, picture in pictures.PICTURES.items()}
    assert all(titles.values())
    without = [(name, title) for name in titles for title in titles[name] if title and not has_unit(title)]
    assert without == []


def test_parts_of_a_checkpoint_have_the_colours_that_reports_give_them(pictures: ModuleType) -> None:
    history = checkpoint_history({"run": pictures.emulate(pictures.fast_and_slow(NetworkConfig()))})
    assert history is not None
    bars = next(layer for layer in history.spec["spec"]["layer"] if "color" in layer["encoding"])
    scale = bars["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert [pictures.PHASES[part] for part in ("start delay", "alignment")] == [
        colours["start delay"],
        colours["alignment"],
    ]


def test_a_slow_consumer_fills_both_pools_and_slows_the_source(pictures: ModuleType) -> None:
    source, consumer = pictures.emulate(pictures.one_by_one()).series
    assert [consumer.inputQueueLength[0][t] for t in (9, 12, 30, 45)] == [0, 9, 9, 0]
    assert [source.outputQueueLength[0][t] for t in (9, 12, 30, 45)] == [1, 1, 10, 1]
    written = source.numRecordsOut[0]
    assert written[15] - written[10] == 1000
    assert 500 <= written[35] - written[30] <= 560


def test_the_channel_grants_what_the_page_tells(pictures: ModuleType) -> None:
    channel = pictures.Channel()
    channel.run(30.0)
    told = [(message.sent_ms, message.kind, message.count) for message in channel.messages[:5]]
    assert told == [(2, "data", 13), (3, "data", 12), (10, "credit", 4), (18, "data", 11), (19, "data", 10)]
    assert channel.levels[0.0] == (2, 0)
    assert channel.levels[29.0] == (0, 4)


def test_the_channel_delivers_everything_and_takes_its_buffers_back(pictures: ModuleType) -> None:
    channel = pictures.Channel()
    channel.run(1000.0)
    assert [message.count for message in channel.messages if message.kind == "data"] == list(
        range(13, -1, -1)
    )
    assert list(channel.levels.values())[-1][1] == 0


def test_the_three_modes_take_what_the_page_says(pictures: ModuleType) -> None:
    taken = [
        pictures.emulate(pictures.fast_and_slow(config)).checkpoints[-2] for config in pictures.MODES.values()
    ]
    assert [round(checkpoint.duration_ms or 0) for checkpoint in taken] == [980, 290, 33]
    assert [checkpoint.persisted_bytes // 1000 for checkpoint in taken] == [0, 0, 976]


def test_debloating_keeps_the_wait_near_its_target_at_no_loss(pictures: ModuleType) -> None:
    def at(debloat: bool) -> tuple[float, float, int]:
        result = pictures.emulate(pictures.changing_load(NetworkConfig(debloat_enabled=debloat)))
        source, consumer = result.series
        queued = sum(sizes[55] for sizes in (*source.outputQueueSize, *consumer.inputQueueSize))
        duration = next(found.duration_ms for found in result.checkpoints if found.t > 50) or 0.0
        read = sum(counts[60] - counts[45] for counts in consumer.numRecordsIn)
        return queued, duration, read

    off, on = at(False), at(True)
    assert on[0] / (399 * 1017) == pytest.approx(1.3, abs=0.1)
    assert on[1] / 1000 == pytest.approx(1.45, abs=0.05)
    assert off[1] / 1000 == pytest.approx(3.45, abs=0.05)
    assert on[2] == pytest.approx(off[2], rel=0.002)
