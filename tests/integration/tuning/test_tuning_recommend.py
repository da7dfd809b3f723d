"""The recommendation: its figures, and its sentences."""

from __future__ import annotations

import msgspec
import pytest

from integration.number_text import milliseconds
from integration.tuning.measures import Measures
from integration.tuning.recommend import Race, Recommendation, recommend
from integration.tuning.settings import NOW
from netstack import InputError
from tests.integration.tuning.made_up import SCENARIO, Figures, measures, recommendation, usual


def test_figures_are_means_over_seeds_with_their_intervals() -> None:
    found = recommendation()
    time = found.advised.figures["end_to_end_ms"]
    assert (time.mean, time.runs, time.of) == (601.5, 2, 2)
    assert time.least < 601.0
    assert found.advised.throughput_share is not None
    assert found.advised.throughput_share.mean == 1.0
    assert found.advised.checkpoints_completed == 20
    assert found.at("target 2 s").figures["end_to_end_ms"].low is None, "a single run"


def test_throughput_is_compared_at_the_same_seeds() -> None:
    """The second seed is slow for all settings."""

    def slow_seed(name: str, seed: int) -> Measures:
        found = usual(name, seed)
        return msgspec.structs.replace(found, throughput_per_s=(found.throughput_per_s or 0.0) / seed)

    share = recommendation(slow_seed).advised.throughput_share
    assert share is not None
    assert (share.mean, share.low, share.high) == (1.0, 1.0, 1.0)


def test_the_document_can_be_read_back() -> None:
    found = recommendation()
    assert msgspec.json.decode(msgspec.json.encode(found), type=Recommendation) == found
    assert found.schema == "netstack.tuning/3"


def test_nothing_can_be_recommended_without_a_run_of_the_present_setting() -> None:
    with pytest.raises(InputError, match="the job did not run with its present setting"):
        recommend(Race(SCENARIO, recommendation().constraints, {}))


def first_words(figures: Figures, **limits: float) -> str:
    return recommendation(figures, **limits).words[0]


def only(names: tuple[str, ...], figures: Figures) -> Figures:
    """Figures of some settings; the others are like now."""
    return lambda name, seed: figures(name if name in names else NOW, seed)


def test_the_verdict_has_the_gain_and_the_price() -> None:
    assert first_words(usual) == (
        "Set the debloat target to 500 ms: checkpoints take 602 ms instead of 6.00 s, throughput unchanged."
    )
    costly = only(("target 100 ms",), lambda name, seed: measures(100.0 if name != NOW else 6000.0, 392.0))
    unaligned = only(("unaligned",), usual)
    assert first_words(unaligned) == (
        "Take unaligned checkpoints: checkpoints take 40 ms instead of 6.00 s, throughput unchanged, each "
        "stores 1.91 MiB of data in flight, records still take 6.00 s."
    )
    assert "throughput unchanged" in first_words(costly), "that of now is as low"


def test_throughput_is_said_as_a_share_or_as_a_factor() -> None:
    def with_rate(rate: float) -> Figures:
        return only(
            ("target 1 s",), lambda name, seed: usual(name, seed) if name == NOW else measures(600.0, rate)
        )

    assert first_words(with_rate(388.0)).endswith(", throughput 3.0 % lower.")
    assert first_words(with_rate(408.0)).endswith(", throughput 2.0 % higher.")
    assert first_words(with_rate(1200.0)).endswith(", throughput 3.0 times as high.")


def test_where_nothing_is_better_the_present_setting_stays() -> None:
    assert first_words(only((), usual)) == (
        "Keep the present setting (debloating off): checkpoints take 6.00 s, and no other setting is clearly "
        "better."
    )


def test_where_all_that_is_faster_breaks_a_limit_the_nearest_is_named() -> None:
    assert first_words(only(("unaligned",), usual), max_stored_bytes=0.0) == (
        "Keep the present setting (debloating off): checkpoints take 6.00 s, and unaligned takes 40 ms, but "
        "each checkpoint stores up to 1.91 MiB, not 0 B."
    )


def test_where_no_checkpoint_completes_now_the_verdict_says_so() -> None:
    def none_now(name: str, seed: int) -> Measures:
        return measures(None, delay_ms=9000.0) if name == NOW else usual(name, seed)

    found = recommendation(none_now)
    time = milliseconds(found.advised.mean("end_to_end_ms"))
    assert f": checkpoints take {time}, and none completes now, " in found.words[0]
    assert found.now.broken == ["no checkpoint completes"]


def test_times_of_few_checkpoints_are_called_rough() -> None:
    def few(name: str, seed: int) -> Measures:
        return msgspec.structs.replace(usual(name, seed), checkpoints_completed=2)

    assert recommendation(few).words[-1] == (
        "With target 500 ms, only 2 checkpoints complete in a run, so their times are rough."
    )


def test_alternatives_are_in_words_too() -> None:
    found = recommendation()
    assert [(each.kind, each.name) for each in found.alternatives] == [("fastest", "unaligned")]
    assert found.words[1] == (
        "Fastest: take unaligned checkpoints; checkpoints take 40 ms instead of 6.00 s, throughput unchanged,"
        " each stores 1.91 MiB of data in flight, records still take 6.00 s."
    )


def test_a_repr_is_the_verdict_in_one_line() -> None:
    assert repr(recommendation()).startswith(
        "<Recommendation for made-up, now debloating off, 11 settings tried: Set the debloat target to 500 ms"
    )
