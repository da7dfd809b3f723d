"""Axes of a sweep: what a person types, what it makes of a scenario, and every mistake in it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from integration.tuning.axes import Axis, apply, read_axes
from integration.tuning.points import Grid
from netstack import Edge, GeneratorSpec, InputError, NetworkConfig, Scenario, Vertex

PREFIX = "taskmanager.network.memory.buffer-debloat"


def job(ship: str = "rebalance", rates: tuple[float, ...] = (0.0,)) -> Scenario:
    """A source, a vertex that costs nothing, and one that does."""
    return Scenario(
        name="job",
        duration_s=1.0,
        config=NetworkConfig(checkpoint_interval_s=1.0),
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100, rates=rates)),
            Vertex(name="parse", parallelism=2),
            Vertex(name="slow", parallelism=4, service=((0.0, 0.005), (0.5, 0.01))),
        ),
        edges=(Edge(source="source", target="parse", ship=ship), Edge(source="parse", target="slow")),
    )


def only(**texts: str | list[str]) -> Axis:
    (axis,) = read_axes(**texts)  # type: ignore[arg-type]
    return axis


def after(scenario: Scenario, **texts: str) -> Scenario:
    """The scenario at the only value of an axis."""
    return apply(scenario, only(**texts).values)


def shown(axis: Axis) -> list[str]:
    return [value.text for value in axis.values]


def mistakes(**texts: str | list[str]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_axes(**texts)  # type: ignore[arg-type]
    return list(caught.value.problems)


def test_a_target_turns_debloating_on_and_counts_as_given() -> None:
    config = after(job(), target="50ms").config
    assert (config.debloat_enabled, config.debloat_target_s) == (True, 0.05)
    assert {"debloat_enabled", "debloat_target_s"} <= config.given


def test_values_have_one_form_and_stand_once_in_the_order_given() -> None:
    axis = only(target="1s, 50 ms,1000ms,200ms")
    assert (axis.name, shown(axis)) == ("target", ["1 s", "50 ms", "200 ms"])


def test_any_option_is_an_axis_under_the_name_it_was_given_by() -> None:
    axes = read_axes(
        options=[f"{PREFIX}.samples=5,20", "execution.buffer-timeout=10", f"{PREFIX}.enabled=TRUE"]
    )
    assert [axis.name for axis in axes] == [
        f"{PREFIX}.samples",
        "execution.buffer-timeout",
        f"{PREFIX}.enabled",
    ]
    assert [shown(axis) for axis in axes] == [["5", "20"], ["10 ms"], ["true"]]
    config = apply(job(), [axis.values[-1] for axis in axes]).config
    assert (config.debloat_samples, config.buffer_timeout_interval_s, config.debloat_enabled) == (
        20,
        0.01,
        True,
    )
    assert config.checkpoint_interval_s == 1.0


def test_service_is_for_the_vertices_that_have_one() -> None:
    services = [vertex.service for vertex in after(job(), service="2ms").vertices]
    assert services == [(), (), ((0.0, 0.002),)]


def test_where_no_vertex_has_a_service_time_all_but_the_sources_get_one() -> None:
    free = apply(job(), ())
    free = Scenario(name="free", duration_s=1.0, vertices=free.vertices[:2], edges=free.edges[:1])
    assert [vertex.service for vertex in after(free, service="2ms").vertices] == [(), ((0.0, 0.002),)]


def test_a_vertex_may_be_named_and_its_name_may_have_colons() -> None:
    named = Scenario(
        name="named",
        duration_s=1.0,
        vertices=(job().vertices[0], Vertex(name="map: a", service=((0.0, 1.0),))),
        edges=(Edge(source="source", target="map: a"),),
    )
    assert after(named, service="map: a:2ms").vertex("map: a").service == ((0.0, 0.002),)
    assert after(named, skew="map: a:1:4").vertex("map: a").service_skew == (1.0, 4.0)
    assert after(named, parallelism="map: a:3").vertex("map: a").parallelism == 3
    assert shown(only(skew="map: a:1:4.0,1:1")) == ["map: a:1:4", "1:1"]


def test_skew_is_for_the_vertices_that_have_a_service_time() -> None:
    skews = [vertex.service_skew for vertex in after(job(), skew="1:1:1:4").vertices]
    assert skews == [(1.0,), (1.0,), (1.0, 1.0, 1.0, 4.0)]


def test_parallelism_leaves_the_sources_as_they_are() -> None:
    assert [vertex.parallelism for vertex in after(job(), parallelism="8").vertices] == [2, 8, 8]


def test_a_source_that_forwards_goes_with_what_it_forwards_to_and_emits_as_much() -> None:
    changed = after(job("forward", (100.0, 300.0)), parallelism="8").vertices[0]
    assert changed.parallelism == 8
    assert sum(changed.rate(subtask) for subtask in range(8)) == pytest.approx(400)
    assert changed.rate(1) / changed.rate(0) == pytest.approx(3)


def test_a_source_that_emits_as_fast_as_it_can_goes_on_to() -> None:
    assert after(job("forward"), parallelism="8").vertices[0].rate(5) == 0


def test_a_skew_that_makes_all_work_free_is_a_mistake() -> None:
    (line,) = mistakes(skew="0:0")
    assert line.startswith("skew: all factors in '0:0' are 0")
    assert shown(only(skew="0:1")) == ["0:1"]


def test_latency_and_policy_belong_to_the_job() -> None:
    assert after(job(), latency="1.5 ms").link.latency_s == 0.0015
    assert after(job(), policy="flink").config == job().config


def test_each_mistake_is_a_line_that_begins_with_the_axis() -> None:
    assert mistakes(target="50ms,soon", parallelism="0,2.5", skew="1:x", service="5") == [
        "target: 'soon' is not a whole number with a unit; "
        'it must be a time such as "5 ms", "1 s" or "1 min"',
        'service: \'5\' has no unit; it must be a time such as "5 ms", "1 s" or "1 min"',
        "skew: '1:x' is not a list of factors; it must be factors such as 1:1:1:4",
        "parallelism: '0' is no parallelism; it must be a whole number from 1",
        "parallelism: '2.5' is no parallelism; it must be a whole number from 1",
    ]


def test_mistakes_in_options_name_the_option_and_what_was_meant() -> None:
    assert mistakes(options=[f"{PREFIX}.sample=1,2", f"{PREFIX}.samples=-1", "samples", "=5"]) == [
        f"{PREFIX}.sample: no version of Flink that netstack knows has this option; did you mean "
        f"'{PREFIX}.samples'?",
        f"{PREFIX}.samples: '-1' is too small; it must be a whole number from 1",
        f"samples: sets no value; it must be {PREFIX}.samples=5,20, for example",
        f"=5: names no option; it must be {PREFIX}.samples=5,20, for example",
    ]


def test_an_axis_that_is_given_twice_is_a_mistake() -> None:
    assert mistakes(options=[f"{PREFIX}.samples=1", f"{PREFIX}.samples=2"]) == [
        f"{PREFIX}.samples: is given twice; give the option once, with all values"
    ]


def test_what_a_scenario_has_not_is_a_line_that_names_axis_and_value() -> None:
    assert only(service="sloww:1ms,source:1ms").problems(job()) == [
        "service sloww:1 ms: no vertex is named 'sloww'; did you mean 'slow'?",
        "service source:1 ms: 'source' is a source, which does no work on records; name another vertex",
    ]
    assert only(parallelism="parse:3").problems(job("forward")) == [
        "parallelism parse:3: edges.source->parse.ship: forward needs the same parallelism on both "
        "sides, not 2 and 3; make them equal, or use rescale or rebalance"
    ]
    assert only(target="0ms").problems(job()) == [
        f"target 0 s: flink.{PREFIX}.target: is 0 s; it must be more than 0"
    ]


@given(st.integers(1, 10**7), st.lists(st.integers(0, 400).map(lambda n: n / 4), min_size=1, max_size=5))
def test_the_form_of_a_value_reads_as_the_same_value(milliseconds: int, factors: list[float]) -> None:
    assume(any(factors))
    for texts in (
        {"target": f"{milliseconds}ms"},
        {"service": f"slow:{milliseconds} us"},
        {"skew": ":".join(map(str, factors))},
        {"parallelism": str(milliseconds)},
    ):
        axis = only(**texts)
        again = only(**{axis.name: axis.values[0].text})
        assert shown(again) == shown(axis)
        assert apply(job(), again.values) == apply(job(), axis.values)


@pytest.mark.parametrize("option", ["enabled=false", "target=1s"])
def test_an_option_that_undoes_the_target_is_refused_beside_it(option: str) -> None:
    name = f"{PREFIX}.{option.partition('=')[0]}"
    wrong = f"{name}: conflicts with the axis target, which sets this option too; use only one of the two"
    assert mistakes(target="50ms", options=[f"{PREFIX}.{option}"]) == [wrong]
    assert only(options=[f"{PREFIX}.{option}"]).name == name


def test_more_factors_than_subtasks_are_refused() -> None:
    assert only(skew="1:1:1:1:2").problems(job()) == [
        "skew 1:1:1:1:2: 'slow' has 4 subtasks, and 5 factors are given"
    ]
    assert only(skew="1:4").problems(job()) == []


def test_factors_are_for_the_parallelism_beside_them() -> None:
    axes = read_axes(skew="1:1:1:1:2", parallelism="slow:5")
    assert Grid(axes, 1).points(job())
    with pytest.raises(InputError, match="'slow' has 3 subtasks, and 5 factors are given"):
        Grid(read_axes(skew="1:1:1:1:2", parallelism="slow:3"), 1).points(job())


@pytest.mark.parametrize("axis", ["target", "latency", "service"])
def test_times_below_0_are_to_be_positive(axis: str) -> None:
    (line,) = mistakes(**{axis: "-5ms"})
    assert line.startswith(f"{axis}: '-5ms' is negative; it must be positive: a time such as")
