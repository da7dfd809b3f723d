"""Axes of a sweep: options as a person types them, and every mistake in them."""

from __future__ import annotations

import pytest

from integration.advise.sweeps.axes import Axis, AxisValue, apply, option_axes
from netstack import Edge, GeneratorSpec, InputError, NetworkConfig, Scenario, Vertex

PREFIX = "taskmanager.network.memory.buffer-debloat"


def job() -> Scenario:
    return Scenario(
        name="job",
        duration_s=1.0,
        config=NetworkConfig(checkpoint_interval_s=1.0),
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100)),
            Vertex(name="slow", parallelism=4, service=((0.0, 0.005), (0.5, 0.01))),
        ),
        edges=(Edge(source="source", target="slow"),),
    )


def shown(axis: Axis) -> list[str]:
    return [value.text for value in axis.values]


def mistakes(*options: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        option_axes(options)
    return list(caught.value.problems)


def test_values_have_one_form_and_stand_once_in_the_order_given() -> None:
    (axis,) = option_axes([f"{PREFIX}.target=1s, 50 ms,1000ms,200ms"])
    assert (axis.name, shown(axis)) == (f"{PREFIX}.target", ["1 s", "50 ms", "200 ms"])


def test_any_option_is_an_axis_under_the_name_it_was_given_by() -> None:
    axes = option_axes([f"{PREFIX}.samples=5,20", "execution.buffer-timeout=10", f"{PREFIX}.enabled=TRUE"])
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


def test_mistakes_in_options_name_the_option_and_what_was_meant() -> None:
    assert mistakes(f"{PREFIX}.sample=1,2", f"{PREFIX}.samples=-1", "samples", "=5") == [
        f"{PREFIX}.sample: no version of Flink that netstack knows has this option; did you mean "
        f"'{PREFIX}.samples'?",
        f"{PREFIX}.samples: '-1' is too small; it must be a whole number from 1",
        f"samples: sets no value; it must be {PREFIX}.samples=5,20, for example",
        f"=5: names no option; it must be {PREFIX}.samples=5,20, for example",
    ]


def test_an_axis_that_is_given_twice_is_a_mistake() -> None:
    assert mistakes(f"{PREFIX}.samples=1", f"{PREFIX}.samples=2") == [
        f"{PREFIX}.samples: is given twice; give the option once, with all values"
    ]


def test_a_value_that_a_scenario_cannot_have_is_a_line_that_names_axis_and_value() -> None:
    (axis,) = option_axes([f"{PREFIX}.target=0ms,1s"])
    assert axis.problems(job()) == [
        f"{PREFIX}.target 0 s: flink.{PREFIX}.target: is 0 s; it must be more than 0"
    ]


def test_an_error_of_a_change_is_a_line_that_names_axis_and_value() -> None:
    def missing(scenario: Scenario) -> Scenario:
        raise InputError(["no vertex is named 'sloww'"])

    axis = Axis("service", (AxisValue("1 ms", missing),))
    assert axis.problems(job()) == ["service 1 ms: no vertex is named 'sloww'"]
