import dataclasses
import errno
import json
import pickle
from pathlib import Path

import pytest

from integration.cli.preparation import opened
from integration.files.reading import load_json, load_result, load_scenario
from integration.flink import FlinkRestError
from netstack import GeneratorSpec, InputError, PathSpec, Result, ScenarioError, scenario_document, to_json

REFERENCES = Path(__file__).parents[2] / "data/flink-reference"

GOOD = """\
name = "job"
duration = "46 s"
warmup = "16 s"

[flink]
"execution.checkpointing.interval" = "2 s"

[costs]
trigger = ["5 ms", "10 ms"]

[link]
latency = "100 us"
bandwidth = "10 gbit/s"

[[vertices]]
name = "source"
parallelism = 2
source = { record_bytes = 1013, rate = [0, 100] }

[[vertices]]
name = "stage1"
parallelism = 2
service = [{ at = "0 s", cost = "1 ms" }, { at = "30 s", cost = "5 ms" }]

[[edges]]
from = "source"
to = "stage1"
ship = "rebalance"
"""

STEP = '{ at = "30 s", cost = "5 ms" }'
SOURCE = "source = { record_bytes = 1013, rate = [0, 100] }"
INTERVAL = '"execution.checkpointing.interval" = "2 s"'

# What stands in the file, what is written in its place, and what the one line about it must hold.
MISTAKES = [
    ('duration = "46 s"', "duration = 46", ["duration: 46 has no unit", '"1 s"']),
    (
        'duration = "46 s"',
        'duration = "46 sek"',
        ["duration: '46 sek' has the unknown unit 'sek'", "ms, s, min"],
    ),
    ('duration = "46 s"', 'duration = "0 s"', ["duration: is 0 s", "more than 0 s"]),
    ('duration = "46 s"', "", ["duration: is missing", '"60 s"']),
    ("warmup =", "warmpu =", ["warmpu: is not a key", "did you mean 'warmup'?"]),
    ('warmup = "16 s"', 'warmup = "60 s"', ["warmup: is 60 s", "less than the duration, 46 s"]),
    ('name = "job"', "name = 3", ["name: is 3, a whole number", "text in quotes"]),
    ("[flink]", 'seed = "1"\n[flink]', ["seed: is '1', text", "a whole number, without quotes"]),
    ("[flink]", "seed = nan\n[flink]", ["seed: is nan, a number; it must be a whole number"]),
    ("[flink]", "seed = -1\n[flink]", ["seed: is -1", "0 or more"]),
    (SOURCE, SOURCE.replace("100]", "1e308]"), ["source.rate: is [0.0, 1e+308]", "1e+09 records per second"]),
    (
        "[flink]",
        'preset = "flink-3"\n[flink]',
        ["preset: 'flink-3' is not the name of a preset", "'flink-2.3' or 'flink-2.2' or 'flink-1.20'"],
    ),
    ("[flink]", 'phases = [["1 s"]]\n[flink]', ["phases: ['1 s'] is not a window", '["20 s", "60 s"]']),
    ("[flink]", 'phases = [["9 s", "90 s"]]\n[flink]', ["phases[0]: is 9 s to 90 s", "between 0 s and 46 s"]),
    ("[flink]", "[flinc]", ["flinc: is not a key", "did you mean 'flink'?"]),
    ("[flink]", "flink = 5\n[x]", ["flink: is 5, a whole number; it must be a table"]),
    (
        "interval",
        "intervall",
        [
            "checkpointing.intervall: no version of Flink that netstack knows has this option",
            "checkpointing.interval'?",
        ],
    ),
    (
        INTERVAL,
        'interval = "2 s"',
        ["flink.interval: no version of Flink", "'execution.checkpointing.interval'"],
    ),
    (
        INTERVAL,
        '"taskmanager.cpu.cores" = 4',
        ["flink.taskmanager.cpu.cores: no version of Flink that netstack knows has this option"],
    ),
    ('"2 s"', '"2.5 s"', ["execution.checkpointing.interval: '2.5 s' has decimals", "whole numbers"]),
    ('"2 s"', '"2 parsec"', ["execution.checkpointing.interval: '2 parsec' has the unknown unit 'parsec'"]),
    ('"2 s"', '"1 ms"', ["execution.checkpointing.interval: is 1 ms", "at least 10 ms"]),
    (INTERVAL, '"execution.checkpointing.mode" = "ONCE"', ["'ONCE'", "EXACTLY_ONCE or AT_LEAST_ONCE"]),
    (INTERVAL, '"taskmanager.memory.segment-size" = "5 kb"', ["segment-size: is 5 kb", "power of two"]),
    (INTERVAL, '"execution.buffer-timeout.enabled" = 3', ["enabled: 3 is neither true nor false"]),
    (
        INTERVAL,
        '"taskmanager.network.memory.buffers-per-channel" = -1',
        ["buffers-per-channel: -1 is too small"],
    ),
    (
        INTERVAL,
        '"execution.buffer-timeout"="1 s"\n"execution.buffer-timeout.interval"="1 s"',
        ["another name of"],
    ),
    ("trigger =", "triger =", ["costs.triger: is not a key", "did you mean 'trigger'?"]),
    (
        '["5 ms", "10 ms"]',
        '["10 ms", "5 ms"]',
        ["costs.trigger: is (0.01, 0.005)", "begin with its smaller value"],
    ),
    ('["5 ms", "10 ms"]', '["5 ms"]', ["costs.trigger: is ['5 ms']", "the minimum and the maximum"]),
    ('"100 us"', "3", ["link.latency: 3 has no unit"]),
    (
        '"10 gbit/s"',
        '"10 Gb/s"',
        ["link.bandwidth: the unit of '10 Gb/s' does not say", '"gbit/s" or "GB/s"'],
    ),
    ('"10 gbit/s"', '"10 gb"', ["link.bandwidth: '10 gb' has no unit of bytes or bits per second"]),
    (
        "parallelism = 2\nsource",
        "parallelism = 0\nsource",
        ["vertices.source.parallelism: is 0", "at least 1"],
    ),
    ("parallelism = 2\nsource", 'parallelism = "2"\nsource', ["vertices.source.parallelism: is '2', text"]),
    ("parallelism = 2\nsource", "parallelism = 99999\nsource", ["is 99999; it must be from 1 to 32768"]),
    (
        "parallelism = 2\nsource",
        "paralelism = 2\nsource",
        ["paralelism: is not a key", "did you mean 'parallelism'?"],
    ),
    ("record_bytes = 1013", "record_bytes = 3", ["vertices.source.source.record_bytes: is 3", "8 (the key)"]),
    (
        "record_bytes = 1013",
        "record_bytes = 1013.0",
        ["record_bytes: is 1013.0, a number; it must be a whole"],
    ),
    (", rate = [0, 100]", ", rat = 1", ["vertices.source.source.rat: is not a key", "did you mean 'rate'?"]),
    (", rate = [0, 100]", ", rate = [-1]", ["vertices.source.source.rate: is [-1.0]"]),
    (", rate = [0, 100]", ', rate = "fast"', ["rate: is 'fast', text; it must be a number"]),
    (
        "record_bytes = 1013",
        'path = "x.csv", record_bytes = 3',
        ["record_bytes: is given together with a path"],
    ),
    (SOURCE, 'source = "x.csv"', ["vertices.source.source: is 'x.csv', text; it must be a table"]),
    (
        SOURCE,
        'source = { path = "x", format = "orc" }',
        ["format: 'orc' is not a format", "'csv' or 'json' or"],
    ),
    (SOURCE, "source = { rate = 5 }", ["vertices.source.source.record_bytes: is missing", "or a path"]),
    (SOURCE, 'source = { path = "x.csv", repeat = 1 }', ["repeat: is 1", "true or false"]),
    (
        STEP,
        '{ at = "30 s", cots = "5 ms" }',
        ["vertices.stage1.service: has a step with wrong keys", 'cost = "5 ms"'],
    ),
    (STEP, '{ at = "0 s", cost = "5 ms" }', ["vertices.stage1.service: has steps at 0 s, 0 s"]),
    (STEP, "5", ["vertices.stage1.service: is 5, a whole number; it must be a table"]),
    ('name = "stage1"', 'name = "source"', ["vertices.source: 2 vertices have this name"]),
    ('to = "stage1"', 'to = "stage2"', ["edges.source->stage2.to: no vertex is named 'stage2'", "'stage1'?"]),
    ('from = "source"', 'from = "stage1"', ["edges: the edges form a cycle through stage1"]),
    ('to = "stage1"', "", ["edges.0.to: is missing"]),
    (
        'ship = "rebalance"',
        'ship = "rebalanced"',
        ["ship: 'rebalanced' is unknown", "did you mean 'rebalance'?"],
    ),
    (
        'ship = "rebalance"',
        'shipp = "hash"',
        ["edges.source->stage1.shipp: is not a key", "did you mean 'ship'?"],
    ),
    ("[[edges]]", "[[edge]]", ["edge: is not a key of this table; did you mean 'edges'?"]),
    ("[[vertices]]", "[vertices]", ["is not valid TOML"]),
    ("duration =", "duration duration =", ["is not valid TOML", "line 2"]),
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "job.toml"


def test_a_scenario_is_read(file):
    file.write_text(GOOD)
    scenario = load_scenario(file)
    assert (scenario.name, scenario.duration_s, scenario.warmup_s, scenario.seed) == ("job", 46.0, 16.0, 1)
    assert scenario.config.checkpoint_interval_s == 2.0
    assert scenario.config.given == {"checkpoint_interval_s"}
    assert scenario.costs.trigger_s == (0.005, 0.010)
    assert (scenario.link.latency_s, scenario.link.bandwidth_bytes_per_s) == (1e-4, 1.25e9)
    source, stage = scenario.vertices
    assert source.source == GeneratorSpec(record_bytes=1013, rates=(0.0, 100.0))
    assert stage.service == ((0.0, 0.001), (30.0, 0.005))
    assert [(edge.source, edge.target, edge.ship) for edge in scenario.edges] == [
        ("source", "stage1", "rebalance")
    ]


@pytest.mark.parametrize(("right", "wrong", "fragments"), MISTAKES)
def test_a_mistake_gets_a_line_that_says_where_and_what(file, right, wrong, fragments):
    assert right in GOOD
    file.write_text(GOOD.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert all(line.startswith(f"{file}: ") for line in caught.value.problems)
    assert any(all(fragment in line for fragment in fragments) for line in caught.value.problems)


def test_a_source_that_is_no_table_gets_one_line(file):
    file.write_text(GOOD.replace(SOURCE, 'source = "x.csv"'))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert len(caught.value.problems) == 1


def test_several_mistakes_get_a_line_each(file):
    file.write_text(GOOD.replace("warmup", "warmpu").replace("ship", "shipp").replace('"46 s"', "46"))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert len(caught.value.problems) == 3


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.toml: there is no such file"):
        load_scenario(tmp_path / "nothing.toml")


def test_a_folder_and_a_binary_file_are_no_scenarios(tmp_path):
    with pytest.raises(InputError, match="is a folder; give a regular file"):
        load_scenario(tmp_path)
    binary = tmp_path / "x.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_scenario(binary)


def test_the_name_is_that_of_the_file_unless_given(file):
    file.write_text(GOOD.replace('name = "job"', ""))
    assert load_scenario(file).name == "job"


def test_options_may_be_written_without_quotes(file):
    file.write_text(GOOD.replace(INTERVAL, 'execution.checkpointing.interval = "3 s"'))
    assert load_scenario(file).config.checkpoint_interval_s == 3.0


def test_former_names_of_options_are_read(file):
    file.write_text(GOOD.replace(INTERVAL, '"execution.buffer-timeout" = "50 ms"'))
    assert load_scenario(file).config.buffer_timeout_s == 0.05


def test_the_preset_sets_what_is_not_given(file):
    file.write_text(GOOD.replace("[flink]", 'preset = "flink-1.20"\n[flink]'))
    assert load_scenario(file).config.max_overdraft_buffers_per_gate == 5


def test_a_service_mode_for_all_holds_where_a_vertex_has_none(file):
    file.write_text(GOOD.replace("[flink]", 'service_mode = "exact"\n[flink]'))
    assert {vertex.service_mode for vertex in load_scenario(file).vertices} == {"exact"}


def test_a_path_beside_the_file_is_found(file):
    (file.parent / "x.csv").write_text("a\n1\n")
    source = 'source = { path = "x.csv", key = ["a"], repeat = true, rate = 5, format = "csv" }'
    file.write_text(GOOD.replace(SOURCE, source))
    assert load_scenario(file).vertices[0].source == PathSpec(
        path=str(file.parent / "x.csv"), key=("a",), repeat=True, rates=(5.0,), format="csv"
    )


def test_a_path_without_parallelism_takes_that_of_its_partitions(file):
    file.write_text(
        GOOD.replace(SOURCE, 'source = { path = "/x.csv" }').replace("parallelism = 2\nsource", "source")
    )
    assert load_scenario(file).vertices[0].parallelism == 0


@pytest.mark.parametrize("path", sorted(REFERENCES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_reference_scenario_loads_and_loads_back_from_its_document(path, tmp_path):
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    document = tmp_path / f"{path.stem}.json"
    document.write_text(json.dumps(scenario_document(scenario)))
    assert load_scenario(document) == scenario


@pytest.fixture
def result(file) -> Result:
    file.write_text(GOOD)
    scenario = load_scenario(file)
    return Result(
        scenario=scenario,
        preset=scenario.preset,
        clock="virtual",
        seed=1,
        emulated_seconds=1.0,
        wall_seconds=1.0,
    )


def test_a_result_is_read_and_holds_its_scenario(result, tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(to_json(result))
    assert load_result(path) == result
    assert dataclasses.replace(load_scenario(path), name="") == dataclasses.replace(
        load_scenario(tmp_path / "job.toml"), name=""
    )


@pytest.mark.parametrize(
    ("content", "load", "message"),
    [
        ("{", load_json, "is not valid JSON"),
        ("[]", load_json, "is not a JSON object"),
        ("{}", load_result, "is not a JSON result of netstack run: .*missing required field"),
        ('{"duration": 5}', load_scenario, "duration: 5 has no unit"),
        ('{"a": NaN}', load_json, "is not valid JSON: NaN is not a number in JSON"),
        ('{"name": "\\ud800"}', load_scenario, "is not valid JSON: .*surrogates not allowed"),
        ('{"name": "\xed\xa0\x80"}', load_scenario, "is not valid JSON: 'utf-8' codec can't decode"),
    ],
)
def test_a_wrong_json_file_gets_one_line(tmp_path, content, load, message):
    path = tmp_path / "x.json"
    path.write_text(content, "latin-1")
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_names_in_mistakes_are_shown_on_one_line(file):
    file.write_text(GOOD.replace('to = "stage1"', 'to = "a\\nb\\u001b"'))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert r"edges.source->a\nb\x1b.to: no vertex is named" in caught.value.problems[0]


def test_a_byte_order_mark_is_no_part_of_a_scenario(file):
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_scenario(file).name == "job"


def test_one_mistake_gets_one_line_without_what_follows_from_it(file):
    file.write_text(GOOD.replace('to = "stage1"', 'to = "stge1"'))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    (problem,) = caught.value.problems
    assert "no vertex is named 'stge1'; did you mean 'stage1'?" in problem


@pytest.mark.parametrize("size", ["2 gb", "1 tb", "512 b", "33 kb"])
def test_a_segment_size_that_no_flink_takes_is_named_with_its_key(file, size):
    file.write_text(GOOD.replace(INTERVAL, f'"taskmanager.memory.segment-size" = "{size}"'))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    (problem,) = caught.value.problems
    key = f"{file}: flink.taskmanager.memory.segment-size"
    assert problem == f"{key}: is {size}; it must be a power of two from 1 kb to 1 gb"


def test_memory_that_the_machine_has_not_is_a_matter_of_the_segment_size(file):
    file.write_text(GOOD)
    with pytest.raises(InputError) as caught, opened(load_scenario(file), file):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    (problem,) = caught.value.problems
    assert problem.startswith(
        f"{file}: flink.taskmanager.memory.segment-size: is 32 kb; this machine does not have enough memory"
    )


def test_mistakes_cross_to_another_process_line_by_line():
    error = ScenarioError(["a: is wrong", "b: is missing"])
    assert pickle.loads(pickle.dumps(error)).problems == error.problems
    assert pickle.loads(pickle.dumps(FlinkRestError("c: is away"))).problems == ("c: is away",)
