"""The recommendation: its figures, and its sentences."""

from __future__ import annotations

import msgspec
import pytest

from integration.advise.sweeps.confidence import Estimate
from integration.advise.tune.race import Race
from integration.advise.tune.recommend import Recommendation, recommend
from integration.advise.tune.settings import NOW, Mechanism, Question
from integration.advise.tune.words import measured_text
from integration.base.number_text import milliseconds
from integration.runs.window_figures import Measures
from netstack import CheckpointResult, CheckpointStatus, InputError
from tests.integration.advise.tune.made_up import (
    SCENARIO,
    MeasuresOf,
    advice,
    measures,
    recommendation,
    usual,
)


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


def first_words(figures: MeasuresOf, **limits: float) -> str:
    return recommendation(figures, **limits).words[0]


def only(names: tuple[str, ...], figures: MeasuresOf) -> MeasuresOf:
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
    def with_rate(rate: float) -> MeasuresOf:
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


def calm(name: str, seed: int) -> Measures:
    """Figures of a job whose checkpoints are short; unaligned ones would be shorter still."""
    return measures(30.0 if name == "unaligned" else 200.0, stored=1e5 if name == "unaligned" else 0.0)


def test_a_job_that_needs_nothing_is_left_alone() -> None:
    found = recommendation(calm)
    assert (found.verdict, found.configuration, found.alternatives) == ("keep", [], [])
    assert found.words == [
        "Nothing to change: 95 % of the checkpoints take at most 200 ms, which is less than 1.00 s and less "
        "than 50 % of the interval of 20 s. To find faster settings, give a limit or `only`."
    ]


def test_a_job_that_needs_nothing_changes_if_the_user_asks_for_more() -> None:
    assert recommendation(calm, max_checkpoint_ms=100.0).chosen == "unaligned"
    assert recommendation(calm, fast_enough_ms=150.0).chosen == "unaligned"
    asked = advice(calm, question=Question(only=(Mechanism.UNALIGNED,)))
    assert asked.recommendations[0].chosen == "unaligned"


@pytest.mark.parametrize(("spread", "combined"), [(0.0, True), (0.5, False)])
def test_a_second_mechanism_must_gain_more_than_its_uncertainty(spread: float, combined: bool) -> None:
    """The combination is three times as fast on average; with a large spread this may be chance."""

    def figures(name: str, seed: int) -> Measures:
        lucky = 1 + spread * (-1) ** seed
        match name:
            case "target 200 ms":
                return measures(1200.0)
            case "target 200 ms, unaligned":
                return measures(400.0 * lucky, delay_ms=1200.0)
            case "unaligned":
                return measures(2000.0)
        return measures(6000.0)

    question = Question(targets_s=(0.2,), only=(Mechanism.DEBLOATING, Mechanism.UNALIGNED))
    (found,) = advice(figures, question=question).recommendations
    assert found.chosen == ("target 200 ms, unaligned" if combined else "target 200 ms")


def race_of(figures: MeasuresOf, seeds: int) -> Race:
    """A race of the present setting and the target 200 ms, both run with so many seeds."""
    race = Race(SCENARIO, recommendation().constraints, {})
    for name in (NOW, "target 200 ms"):
        race.runs[name] = {seed: figures(name, seed) for seed in range(1, seeds + 1)}
    return race


@pytest.mark.parametrize(
    ("time_ms", "spread", "shown"),
    [
        (940.0, 0.001, True),
        (960.0, 0.001, False),
        (700.0, 0.1, True),
        (700.0, 0.5, False),
        (1300.0, 0.0, False),
    ],
)
def test_a_gain_must_exceed_what_counts_as_equal_and_its_uncertainty(
    time_ms: float, spread: float, shown: bool
) -> None:
    """The present setting takes 1000 ms with each of four seeds; 50 ms count as equal."""

    def figures(name: str, seed: int) -> Measures:
        return measures(1000.0 if name == NOW else time_ms * (1 + spread * (-1) ** seed))

    gained = race_of(figures, 4).shown_gain("target 200 ms", NOW)
    assert gained == ("end_to_end_ms" if shown else None)


def test_only_a_clear_difference_counts_with_a_single_seed() -> None:
    for time_ms, shown in ((890.0, True), (910.0, False)):  # 5 % count as equal, and 5 % more are required
        race = race_of(lambda name, seed, time_ms=time_ms: measures(1000.0 if name == NOW else time_ms), 1)
        assert (race.shown_gain("target 200 ms", NOW, 0.05) is not None) is shown
        assert race.shown_gain("target 200 ms", NOW) is None
    rates = race_of(lambda name, seed: measures(1000.0, 400.0 if name == NOW else 390.0), 1)
    assert rates.loses_throughput("target 200 ms", NOW)
    assert not rates.loses_throughput(NOW, "target 200 ms")


def test_a_gain_of_throughput_alone_is_shown() -> None:
    race = race_of(lambda name, seed: measures(None, 400.0 if name == NOW else 410.0), 3)
    assert race.shown_gain("target 200 ms", NOW) == "throughput_per_s"
    assert race.shown_gain(NOW, "target 200 ms") is None


def test_the_verdict_names_the_phase_with_the_slowest_checkpoints() -> None:
    def with_peak(name: str, seed: int) -> Measures:
        slow_ms = 9000.0 if name == NOW else 800.0
        return msgspec.structs.replace(
            usual(name, seed), worst_phase="from 30 s to 60 s", worst_phase_ms=slow_ms
        )

    assert recommendation(with_peak).words[1] == (
        "The slowest checkpoints now are those from 30 s to 60 s: they take 9.00 s. With target 500 ms, the "
        "slowest are those from 30 s to 60 s: 800 ms."
    )


def test_the_times_that_flink_reports_stand_beside_those_of_the_emulation() -> None:
    def reported(*times_ms: float) -> str | None:
        shown = [
            CheckpointResult(
                id=number, t=float(number), status=CheckpointStatus.COMPLETED, duration_ms=time, vertices=[]
            )
            for number, time in enumerate(times_ms)
        ]
        return measured_text(recommendation().now, shown)

    assert reported() is None
    assert reported(5000.0, 7000.0) == (
        "Flink reports that checkpoints take 6.00 s on average (5.00 s to 7.00 s); the "
        "emulation agrees (6.00 s)."
    )
    assert reported(3000.0) == (
        "Warning: Flink reports that checkpoints take 3.00 s, and the emulation says 6.00 s. Figures of "
        "other settings may differ as much from a real job; `netstack validate` shows which quantities "
        "differ."
    )


def test_below_the_limit_flink_is_compared_with_the_emulation_of_today() -> None:
    now = msgspec.structs.replace(
        recommendation().now, today={"end_to_end_ms": Estimate(80.0, None, None, 1, 1)}
    )
    shown = CheckpointResult(id=1, t=1.0, status=CheckpointStatus.COMPLETED, duration_ms=85.0, vertices=[])
    assert measured_text(now, [shown]) == (
        "Flink reports that checkpoints take 85 ms; the emulation agrees (80 ms)."
    )
