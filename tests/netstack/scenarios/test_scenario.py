import dataclasses
import json

import pytest

from netstack import (
    AtTime,
    ChannelItem,
    CollectionSource,
    CostModel,
    CutLink,
    DelayMessages,
    DropMessages,
    Edge,
    FailUpload,
    FillStorage,
    GeneratorSpec,
    KillSubtask,
    KillTaskManager,
    LinkConditions,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    PathSpec,
    Scenario,
    ScenarioError,
    SourceObject,
    SubtaskName,
    Vertex,
    check_scenario,
    emulate,
    option_notices,
    payload_hash,
    read_scenario,
    scenario_document,
    scenario_problems,
    source_of,
    with_options,
)
from netstack.scenarios.checkpoint_modes import CheckpointMode
from netstack.scenarios.options import CheckpointStorageType, RestartStrategy
from tests.netstack.diamonds import chain_of_diamonds

SOURCE = Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100))
STAGE = Vertex(name="stage1", parallelism=2, service=((0.0, 0.001),))
JOB = Scenario(
    name="job", duration_s=60.0, vertices=(SOURCE, STAGE), edges=(Edge(source="source", target="stage1"),)
)


def job(**changes) -> Scenario:
    return dataclasses.replace(JOB, **changes)


def with_vertex(number: int, **changes) -> Scenario:
    vertices = list(JOB.vertices)
    vertices[number] = dataclasses.replace(vertices[number], **changes)
    return job(vertices=tuple(vertices))


def with_edge(**changes) -> Scenario:
    return job(edges=(dataclasses.replace(JOB.edges[0], **changes),))


def test_a_sensible_scenario_has_no_problems():
    assert scenario_problems(JOB) == []
    check_scenario(JOB)


LOOP = (*JOB.edges, Edge(source="stage1", target="stage2"), Edge(source="stage2", target="stage1"))
THREE = (SOURCE, STAGE, dataclasses.replace(STAGE, name="stage2"), dataclasses.replace(STAGE, name="after"))
UNEVEN = (SOURCE, dataclasses.replace(STAGE, parallelism=3))
UNKEYED = (dataclasses.replace(SOURCE, source=PathSpec(path="x.csv")), STAGE)
FORWARD = (dataclasses.replace(JOB.edges[0], ship="forward"),)
HASH = (dataclasses.replace(JOB.edges[0], ship="hash"),)
FLINK = "flink.taskmanager."
LOOPED = job(vertices=THREE, edges=(*LOOP, Edge(source="stage2", target="after")))


@pytest.mark.parametrize(
    ("scenario", "key", "message"),
    [
        (job(name=""), "name", "is empty"),
        (job(duration_s=0.0), "duration", "more than 0 s"),
        (job(duration_s=float("inf")), "duration", "is inf"),
        (job(warmup_s=60.0), "warmup", "less than the duration, 60 s"),
        (job(seed=-1), "seed", "0 or more"),
        (job(preset="flink-2.4"), "preset", "did you mean 'flink-2.3'?"),
        (
            job(phases=((10.0, 70.0),)),
            "phases[0]",
            "is 10 s to 70 s; a phase must begin before it ends, and lie between 0 s and ",
        ),
        (job(phases=((1.0, 2.0), (9.0, 3.0))), "phases[1]", "a phase must begin before it ends"),
        (job(config=NetworkConfig(segment_bytes=5000)), FLINK + "memory.segment-size", "power of two"),
        (
            job(config=NetworkConfig(segment_bytes=4096, starting_segment_bytes=8192)),
            FLINK + "memory.starting-segment-size",
            "4 kb, the segment size",
        ),
        (
            job(config=NetworkConfig(adaptive_partitioner_max_traverse_size=1)),
            FLINK + "network.adaptive-partitioner.max-traverse-size",
            "is 1; it must be 2 or more, because Flink 2.3 fails the job otherwise",
        ),
        (
            job(config=NetworkConfig(debloat_target_s=0.0)),
            FLINK + "network.memory.buffer-debloat.target",
            "more than 0",
        ),
        (
            job(config=NetworkConfig(checkpoint_interval_s=0.001)),
            "flink.execution.checkpointing.interval",
            "; Flink requires at least 10 ms",
        ),
        (job(duration_s=1e20), "duration", "; it must be at most"),
        (job(config=NetworkConfig(segment_bytes=512)), FLINK + "memory.segment-size", "from 1 kb"),
        (job(config=NetworkConfig(heartbeat_timeout_s=0.0)), "flink.heartbeat.timeout", "more than 0"),
        (
            job(config=NetworkConfig(unaligned_enabled=True, max_concurrent_checkpoints=2)),
            "flink.execution.checkpointing.max-concurrent-checkpoints",
            "; with unaligned checkpoints it must be 1",
        ),
        (
            job(config=NetworkConfig(checkpoints_during_recovery=True)),
            "flink.execution.checkpointing.unaligned.during-recovery.enabled",
            "needs execution.checkpointing.unaligned.recover-output-on-downstream.enabled = true",
        ),
        (
            job(config=NetworkConfig(checkpoint_storage=CheckpointStorageType.FILESYSTEM)),
            "flink.execution.checkpointing.dir",
            "is missing, but the checkpoint storage is filesystem",
        ),
        (
            job(manual_checkpoints_s=(1.0, 60.0)),
            "checkpoints_at[1]",
            "is 60 s; it must be from 0 s to before",
        ),
        (job(costs=CostModel(upload_rate_bytes_per_s=0.0)), "costs.upload_rate", "must be more"),
        (job(costs=CostModel(download_rate_bytes_per_s=0.0)), "costs.download_rate", "must be more"),
        (job(costs=CostModel(wire_s=-1.0)), "costs.wire", "0 or more"),
        (
            job(costs=CostModel(trigger_s=(2.0, 1.0))),
            "costs.trigger",
            "a range must begin with its smaller value",
        ),
        (job(costs=CostModel(wire_rate_bytes_per_s=0.0)), "costs.wire_rate", "must be more"),
        (job(link=LinkConditions(latency_s=-1.0)), "link.latency", "0 or more"),
        (job(link=LinkConditions(bandwidth_bytes_per_s=0.0)), "link.bandwidth", "more than 0"),
        (job(vertices=(), edges=()), "vertices", "the job has no vertices; give it at least a source"),
        (job(vertices=(SOURCE, STAGE, STAGE)), "vertices.stage1", "2 vertices have this name"),
        (with_vertex(1, parallelism=0), "vertices.stage1.parallelism", "from 1 to 32768"),
        (job(edges=()), "vertices.stage1.source", "no edge leads to this vertex"),
        (
            with_vertex(1, source=SOURCE.source),
            "vertices.stage1.source",
            "is given, but an edge leads to this vertex, too; remove the source or the edge",
        ),
        (
            with_vertex(0, service=((0.0, 1.0),)),
            "vertices.source.service",
            "a source cannot have a cost per record or a function; set its rate instead",
        ),
        (
            with_vertex(0, source=GeneratorSpec(record_bytes=7)),
            "vertices.source.source.record_bytes",
            "8 (the key)",
        ),
        (
            with_vertex(0, source=GeneratorSpec(record_bytes=9, rates=(-1.0,))),
            "vertices.source.source.rate",
            "a rate must be from 0",
        ),
        (
            with_vertex(0, source=GeneratorSpec(record_bytes=9, rates=())),
            "vertices.source.source.rate",
            "is empty",
        ),
        (with_vertex(0, source=PathSpec(path="")), "vertices.source.source.path", "name a file"),
        (with_vertex(1, service=((0.0, -1.0),)), "vertices.stage1.service", "cost below 0"),
        (with_vertex(1, service=((1.0, 0.1),)), "vertices.stage1.service", "the first must be at 0 s"),
        (
            with_vertex(1, service=((0.0, 0.1), (5.0, 0.1), (5.0, 0.2))),
            "vertices.stage1.service",
            "later than",
        ),
        (with_vertex(1, service_skew=()), "vertices.stage1.service_skew", "factors"),
        (with_vertex(1, service_spread=-0.1), "vertices.stage1.service_spread", "a share of the cost"),
        (with_vertex(1, service_spread=0.5), "vertices.stage1.service_spread", "to below 0.5"),
        (with_vertex(1, course=((0.0, 1.0),)), "vertices.stage1.course", "a time that is not above 0 s"),
        (with_vertex(1, course=((1.0, -1.0),)), "vertices.stage1.course", "a factor below 0"),
        (with_vertex(1, course=((1.0, 0.0),)), "vertices.stage1.course", "no factor above 0"),
        (with_vertex(0, course=((1.0, 2.0),)), "vertices.source.course", "needs a rate, but"),
        (
            with_vertex(
                0, course=((1.0, 2.0),), source=GeneratorSpec(record_bytes=8, rates=(1.0,), wave_s=1.0)
            ),
            "vertices.source.course",
            "together with a burst or a wave",
        ),
        (
            with_vertex(
                0, course=((1.0, 2.0),), source=GeneratorSpec(record_bytes=8, rates=(1.0,), catch_up_s=0.0)
            ),
            "vertices.source.course",
            "together with catch_up",
        ),
        (
            with_vertex(0, course=((1.0, 2.0),), source=GeneratorSpec(record_bytes=8, rates=(1.0,))),
            "vertices.source.course",
            "has a mean factor of 2; it must be 1",
        ),
        (
            with_vertex(0, course=((1.0, 2.0),), source=PathSpec(path="x.csv")),
            "vertices.source.course",
            "a source that generates no records",
        ),
        (with_vertex(1, service_mode="fast"), "vertices.stage1.service_mode", "throttle, exact"),
        (with_edge(target="stage2"), "edges.source->stage2.to", "did you mean 'stage1'?"),
        (with_edge(source="scource"), "edges.scource->stage1.from", "did you mean 'source'?"),
        (with_edge(ship="shuffle"), "edges.source->stage1.ship", "forward, rescale, rebalance"),
        (job(vertices=UNEVEN, edges=FORWARD), "edges.source->stage1.ship", "not 2 and 3"),
        (LOOPED, "edges", "cycle through stage1, stage2;"),
        (job(vertices=UNKEYED, edges=HASH), "edges.source->stage1.ship", "the source of 'x.csv' has none"),
    ],
)
def test_a_mistake_is_named_with_its_place(scenario, key, message):
    found = dict(scenario_problems(scenario))
    assert key in found
    assert message in found[key]
    with pytest.raises(ScenarioError, match=r"\S+: \S+"):
        check_scenario(scenario)


def test_all_mistakes_are_reported_a_line_each():
    with pytest.raises(ScenarioError) as caught:
        check_scenario(job(seed=-1, warmup_s=99.0))
    assert len(caught.value.problems) == 2
    assert str(caught.value).count("\n") == 1


def test_hash_after_a_users_function_needs_a_key():
    vertices = (
        SOURCE,
        dataclasses.replace(STAGE, operator=lambda subtask: None),
        dataclasses.replace(STAGE, name="z"),
    )
    edges = (JOB.edges[0], Edge(source="stage1", target="z", ship="hash"))
    assert "key_hash" in dict(scenario_problems(job(vertices=vertices, edges=edges)))["edges.stage1->z.ship"]
    keyed = dataclasses.replace(edges[1], key_hash=payload_hash)
    assert scenario_problems(job(vertices=vertices, edges=(edges[0], keyed))) == []


def test_hash_of_sources_of_two_kinds_is_refused():
    other = Vertex(name="other", source=SourceObject(source=CollectionSource([[b"a"]])))
    edges = (
        *JOB.edges,
        Edge(source="other", target="stage1"),
        Edge(source="stage1", target="z", ship="hash"),
    )
    scenario = job(vertices=(SOURCE, other, STAGE, dataclasses.replace(STAGE, name="z")), edges=edges)
    assert (
        "hash needs keys of one kind, but the records come from several kinds of sources; use one edge "
        "for each kind"
    ) in dict(scenario_problems(scenario))["edges.stage1->z.ship"]


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(checkpoint_interval_s=1.0, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE),
        NetworkConfig(checkpoint_interval_s=1.0, unaligned_enabled=True),
        NetworkConfig(checkpoint_interval_s=1.0, unaligned_enabled=True, aligned_checkpoint_timeout_s=1.0),
        NetworkConfig(checkpoint_interval_s=1.0, max_concurrent_checkpoints=2),
        NetworkConfig(checkpoint_interval_s=1.0, checkpoint_min_pause_s=0.5),
        NetworkConfig(
            unaligned_enabled=True,
            max_concurrent_checkpoints=2,
            checkpoint_mode=CheckpointMode.AT_LEAST_ONCE,
        ),
    ],
)
def test_checkpoints_of_all_modes_make_sense(config):
    assert scenario_problems(job(config=config)) == []


def test_a_job_takes_checkpoints_by_its_interval_or_when_a_user_asks():
    assert (JOB.takes_checkpoints, JOB.restart_strategy) == (False, RestartStrategy.NONE)
    for scenario in (
        job(manual_checkpoints_s=(1.0,)),
        job(config=NetworkConfig(checkpoint_interval_s=1.0)),
    ):
        assert scenario.takes_checkpoints
        assert scenario.restart_strategy is RestartStrategy.EXPONENTIAL_DELAY


def test_options_that_flink_2_ignores_are_noticed_when_given():
    config = with_options(NetworkConfig(), {"exclusive_buffers_per_channel": 2, "debloat_enabled": True})
    [(key, message)] = option_notices(job(config=config))
    assert key == "flink.taskmanager.network.memory.buffers-per-channel"
    assert "has an effect in netstack, but a real Flink 2 ignores it" in message
    assert option_notices(job(config=config, preset="flink-1.20")) == []


def test_options_that_change_nothing_are_noticed():
    config = with_options(NetworkConfig(), {"network_memory_min_bytes": 1})
    assert "has no effect" in option_notices(job(config=config))[0][1]


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        (
            NetworkConfig(segment_bytes=2048),
            FLINK + "memory.segment-size",
            "works in netstack, but a real Flink requires at least 4 kb",
        ),
        (
            NetworkConfig(unaligned_enabled=True, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE),
            "flink.execution.checkpointing.unaligned.enabled",
            "has no effect, as in Flink: the checkpointing mode is AT_LEAST_ONCE, which has no "
            "unaligned checkpoints",
        ),
        (
            NetworkConfig(checkpoint_dir="/data", checkpoint_storage=CheckpointStorageType.JOBMANAGER),
            "flink.execution.checkpointing.dir",
            "the checkpoint storage is jobmanager",
        ),
    ],
)
def test_what_flink_would_do_otherwise_is_noticed_and_no_mistake(config, key, message):
    assert scenario_problems(job(config=config)) == []
    [(place, text)] = option_notices(job(config=config))
    assert place == key
    assert message in text


def test_windows_are_the_phases_or_all_after_warmup():
    assert job(warmup_s=20.0).windows == ((20.0, 60.0),)
    assert job(phases=((1.0, 2.0), (3.0, 4.0))).windows == ((1.0, 2.0), (3.0, 4.0))


def test_a_scenario_that_ends_sooner_lacks_what_comes_later() -> None:
    early, late = (KillSubtask(when=AtTime(at), subtask=SubtaskName("sink", 0)) for at in (2.0, 6.0))
    counted = KillSubtask(
        when=OnAcknowledgement(number=9, subtask=SubtaskName("sink", 0)), subtask=SubtaskName("sink", 0)
    )
    whole = job(
        duration_s=10.0,
        phases=((1.0, 3.0), (3.0, 7.0), (7.0, 10.0)),
        manual_checkpoints_s=(4.0, 5.0, 8.0),
        faults=(early, late, counted),
    )
    sooner = whole.ending_at(5.0)
    assert sooner.duration_s == 5.0
    assert sooner.phases == ((1.0, 3.0), (3.0, 5.0))
    assert sooner.manual_checkpoints_s == (4.0,)
    assert sooner.faults == (early, counted)
    assert whole.ending_at(10.0) == whole
    assert whole.ending_at(20.0).phases == ((1.0, 3.0), (3.0, 7.0), (7.0, 20.0))


def test_cost_and_rate_are_those_of_the_subtask_and_the_time():
    vertex = Vertex(name="v", service=((0.0, 0.5), (30.0, 5.0)), service_skew=(1.0, 4.0))
    own, other = ((0.0, 0.5), (30.0, 5.0)), ((0.0, 2.0), (30.0, 20.0))
    assert [vertex.service_steps(subtask) for subtask in range(3)] == [own, other, own]
    assert Vertex(name="v").service_steps(0) == ((0.0, 0.0),)
    source = Vertex(name="s", source=GeneratorSpec(record_bytes=8, rates=(0.0, 100.0)))
    assert [source.rate(subtask) for subtask in range(3)] == [0.0, 100.0, 0.0]


def test_topological_order_leaves_the_cycle_out():
    assert [vertex.name for vertex in LOOPED.topological_order()] == ["source"]
    backwards = job(vertices=(STAGE, SOURCE))
    assert [vertex.name for vertex in backwards.topological_order()] == ["source", "stage1"]


def test_vertices_before_are_those_whose_records_arrive():
    scenario = job(
        vertices=(*THREE[:3], dataclasses.replace(SOURCE, name="apart")),
        edges=(*JOB.edges, Edge(source="stage1", target="stage2"), Edge(source="apart", target="stage2")),
    )
    assert [vertex.name for vertex in scenario.vertices_before("stage1")] == ["source", "stage1"]
    assert {vertex.name for vertex in scenario.vertices_before("stage2")} == {
        "source",
        "apart",
        "stage1",
        "stage2",
    }


def test_sources_generate_by_the_scenarios_seed_and_their_place():
    def first_record(scenario: Scenario, vertex: Vertex) -> bytes:
        block = source_of(scenario, vertex).open(0, 1).read(1)
        assert block is not None
        return bytes(next(iter(block.payloads())))

    twin = dataclasses.replace(SOURCE, name="twin")
    scenario = job(vertices=(SOURCE, twin, STAGE))
    assert first_record(scenario, SOURCE) == first_record(scenario, SOURCE)
    assert first_record(scenario, SOURCE) != first_record(scenario, twin)
    assert first_record(scenario, SOURCE) != first_record(dataclasses.replace(scenario, seed=2), SOURCE)


def test_a_path_has_to_be_opened_first():
    vertex = Vertex(name="source", source=PathSpec(path="flights.csv"))
    with pytest.raises(ScenarioError, match=r"flights\.csv.*open_sources"):
        source_of(job(vertices=(vertex, STAGE)), vertex)


def test_a_vertex_runs_in_a_task_manager_of_its_own_unless_told():
    assert STAGE.managers == ("stage1",)
    assert dataclasses.replace(STAGE, task_manager="tm").managers == ("tm",)
    spread = dataclasses.replace(STAGE, parallelism=3, task_manager=("x", "y"))
    assert [spread.manager_of(subtask) for subtask in range(3)] == ["x", "y", "x"]
    assert spread.managers == ("x", "y")


RICH = Scenario(
    name="rich",
    duration_s=90.5,
    warmup_s=0.1,
    seed=7,
    preset="flink-1.20",
    phases=((1.0, 2.5), (3.0, 90.5)),
    config=NetworkConfig(
        max_overdraft_buffers_per_gate=0,
        checkpoint_interval_s=2.0,
        debloat_enabled=True,
        checkpoint_mode=CheckpointMode.AT_LEAST_ONCE,
        network_memory_max_bytes=3 << 20,
        checkpoint_dir="s3://bucket/checkpoints",
        checkpoint_storage=CheckpointStorageType.FILESYSTEM,
        restart_strategy=RestartStrategy.FIXED_DELAY,
        restart_attempts=7,
        restart_jitter_factor=0.25,
        heartbeat_timeout_s=2.5,
    ),
    costs=CostModel(
        source_record_s=1.5e-6, sync_s=(0.02, 0.02), jitter_sigma=0.5, wire_rate_bytes_per_s=1e9 / 3
    ),
    link=LinkConditions(latency_s=1e-4, bandwidth_bytes_per_s=1.25e9),
    vertices=(
        Vertex(name="a", parallelism=3, source=GeneratorSpec(record_bytes=100, rates=(0.0, 12.5))),
        Vertex(name="b", parallelism=0, source=PathSpec(path="x.csv", key=("k",), repeat=True, format="csv")),
        Vertex(name="c", parallelism=2, task_manager="tm", service=((0.0, 1e-3),), service_skew=(1.0, 0.5)),
        Vertex(name="d", service=((0.0, 1e-3), (5.0, 7e-5)), service_spread=0.05, service_mode="exact"),
    ),
    edges=(
        Edge(source="a", target="c", ship="rescale"),
        Edge(source="b", target="c", ship="hash"),
        Edge(source="c", target="d", ship="broadcast"),
    ),
    manual_checkpoints_s=(3.0, 4.5),
    faults=(
        KillSubtask(when=AtTime(12.0), subtask=SubtaskName("c", 1)),
        KillSubtask(
            when=OnAcknowledgement(number=3, subtask=SubtaskName("a", 2)), subtask=SubtaskName("d", 0)
        ),
        KillTaskManager(when=AtTime(0.25), task_manager="tm"),
        CutLink(
            when=OnChannel(
                item=ChannelItem.BARRIER, number=2, source=SubtaskName("a", 0), target=SubtaskName("c", 0)
            ),
            from_task_manager="tm",
            to_task_manager="d",
        ),
        CutLink(when=AtTime(1.0), from_task_manager="a", to_task_manager="tm", for_s=0.5),
        DelayMessages(when=AtTime(1.0), messages="trigger", delay_s=2.0, for_s=3.0),
        DropMessages(when=AtTime(1.0), messages="acknowledge", for_s=3.0, vertex="c", subtask=0),
        FailUpload(when=AtTime(2.0), for_s=1.0),
        FillStorage(when=AtTime(2.0)),
    ),
)


@pytest.mark.parametrize("scenario", [JOB, RICH])
def test_a_document_loads_back_to_the_same_scenario(scenario):
    document = json.loads(json.dumps(scenario_document(scenario)))
    assert read_scenario(document) == scenario


def test_a_document_names_what_it_cannot_hold():
    vertices = (Vertex(name="source", source=SourceObject(source=CollectionSource([[b"a"]]))),)
    document = scenario_document(job(vertices=vertices, edges=()))
    assert document["vertices"][0]["source"]["object"] == "CollectionSource"
    with pytest.raises(ScenarioError, match="is a Python object"):
        read_scenario(document)


def test_an_opened_path_is_a_path_in_the_document():
    spec = PathSpec(path="x.csv", key=("a", "b"))
    opened = Vertex(name="s", parallelism=4, source=SourceObject(source=CollectionSource([]), spec=spec))
    document = scenario_document(job(vertices=(opened,), edges=()))["vertices"][0]
    assert document == {
        "name": "s",
        "parallelism": 4,
        "source": {"path": "x.csv", "repeat": False, "key": ["a", "b"], "rate": [0]},
    }


@pytest.mark.parametrize("keyed", [False, True])
def test_a_chain_of_many_diamonds_is_checked_and_runs(keyed):
    scenario = chain_of_diamonds(40, keyed=keyed)
    check_scenario(scenario)
    assert sum(emulate(scenario).steady[-1].vertices[-1].records_in_per_s) > 0


def test_vertices_come_after_all_they_read_from_and_else_in_their_order():
    vertices = [Vertex(name=name) for name in "zcabxya"]  # the second "a" has no place of its own
    ends = ["xz", "ab", "cz", "yx", "xy", "bq", "?c"]
    scenario = job(
        vertices=tuple(vertices), edges=tuple(Edge(source=one, target=other) for one, other in ends)
    )
    assert [vertex.name for vertex in scenario.topological_order()] == ["a", "b"]
    without = dataclasses.replace(scenario, edges=scenario.edges[1:3])
    assert [vertex.name for vertex in without.topological_order()] == ["c", "z", "a", "b", "x", "y"]
