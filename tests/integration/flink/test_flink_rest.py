"""Running Flink jobs read through the REST API: recordings of real clusters, served again on loopback."""

import socket
import tomllib
from contextlib import suppress
from dataclasses import replace
from statistics import median

import pytest

from integration.base.optional_figures import known
from integration.base.reading import load_scenario
from integration.flink import FlinkRestError, Imported, Overrides, import_scenario
from integration.flink.read.polling import POLLS
from netstack import (
    OPTIONS,
    PRESETS,
    GeneratorSpec,
    InputError,
    Vertex,
    emulate,
    read_scenario,
    scenario_document,
)
from tests.integration.flink.flink_cluster import (
    NAMES,
    ReplayedCluster,
    Unserved,
    recording,
    replayed,
    serving,
)

ON1S, ON1S_OF_1X, DEPTH2 = NAMES


def read(cluster: ReplayedCluster, **keywords) -> Imported:
    """Import from a cluster that is asked without a server."""
    return import_scenario(Unserved(cluster), watch_s=7.5, **keywords)


def read_served(cluster: ReplayedCluster) -> Imported:
    """Import from a server, without waiting between samples."""
    return import_scenario(cluster.url, watch_s=7.5, pause=lambda seconds: None)


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


def test_an_import_finds_again_what_the_job_was_started_with(name):
    truth = recording(name)
    arguments = truth["job_args"]
    cluster = ReplayedCluster(recording(name))
    scenario = read(cluster).scenario
    assert scenario.preset == f"flink-{truth['flink'][: truth['flink'].rindex('.')]}"
    assert [vertex.name for vertex in scenario.vertices] == ["source", "stage1", "stage2"][
        : arguments["depth"] + 1
    ]
    source, *stages = scenario.vertices
    assert (source.parallelism, source.source.rates) == (arguments["sources"], (0.0,))
    # The serializer adds 13 bytes to the record, and its length is not counted.
    assert source.source.record_bytes == pytest.approx(arguments["record"] + 13, abs=2)
    for stage in stages:
        assert stage.parallelism == arguments[f"{stage.name}.par"]
        assert stage.service_skew == pytest.approx([1.0] * len(stage.service_skew), abs=0.005)
        assert stage.service[0][1] * 1e6 == pytest.approx(float(arguments[f"{stage.name}.service"]), rel=0.07)
    assert stages[-1].service[0][1] * 1e6 == pytest.approx(
        float(arguments[f"{stages[-1].name}.service"]), rel=0.01
    )
    assert [(edge.source, edge.target, edge.ship) for edge in scenario.edges] == [
        (one.name, other.name, arguments["exchange"])
        for one, other in zip(scenario.vertices, stages, strict=False)
    ]


def test_an_import_finds_the_options_again(name):
    truth = recording(name)
    cluster = ReplayedCluster(recording(name))
    scenario = read(cluster).scenario
    options = scenario_document(scenario)["flink"]
    # Only 2.x begins with small buffers; how that is said of 1.x is not the job's.
    options.pop(OPTIONS["starting_segment_bytes"].name, None)
    assert options.pop("taskmanager.memory.network.max") == "256 mb"  # as the task managers say
    assert options == truth["flink_options"]
    assert scenario.config.starting_segment_bytes == (1024 if truth["flink"][0] == "2" else 32768)


def test_an_import_shows_what_the_job_shows():
    with replayed(ON1S) as cluster:
        shown = read_served(cluster).measured
    assert (shown.flink, shown.job) == ("2.2.1", cluster.job)
    assert [checkpoint.id for checkpoint in shown.checkpoints] == [14, 15, 16, 17, 18, 19, 20, 21]
    last = shown.checkpoints[-2].vertices[1]
    assert (last.name, last.start_delay_ms, last.alignment_ms) == ("stage1", [1524, 1514], [15, 0])
    source, stage = shown.steady.vertices
    assert [vertex.name for vertex in shown.steady.vertices] == ["source", "stage1"]
    assert sum(stage.records_in_per_s) == pytest.approx(398, abs=2)
    assert stage.busy_ms_per_s == pytest.approx([1000, 1000], abs=3)
    assert source.backpressured_ms_per_s == pytest.approx([1000, 1000], abs=15)
    assert source.debloatedBufferSize == [None, None]
    assert stage.debloatedBufferSize == [11541, 20150]
    history = cluster.answers[f"/jobs/{cluster.job}/checkpoints"]["history"]
    last_8 = [checkpoint["end_to_end_duration"] for checkpoint in history if checkpoint["id"] >= 14]
    assert shown.steady.end_to_end_ms == median(last_8)
    assert shown.steady.from_s < shown.steady.to_s


def test_an_imported_scenario_as_toml_loads_back_to_it(name, tmp_path):
    from netstack import scenario_toml

    cluster = ReplayedCluster(recording(name))
    imported = read(cluster)
    text = scenario_toml(imported.scenario, imported.notes)
    assert read_scenario(tomllib.loads(text)) == imported.scenario
    (tmp_path / "job.toml").write_text(text)
    assert load_scenario(tmp_path / "job.toml") == imported.scenario


def test_what_cannot_be_read_is_noted():
    cluster = ReplayedCluster(recording(ON1S_OF_1X))
    notes = read(cluster).notes
    assert [" ".join(note.split(" ")[:2]) for note in notes] == [
        "Latency between",
        "A buffer",
        "Checkpoints take",
    ]
    cluster = ReplayedCluster(recording(ON1S_OF_1X))
    given = Overrides(latency_s=1e-4, options={"execution.buffer-timeout": "10 ms"})
    imported = read(cluster, overrides=given)
    assert [note.split(" ")[1] for note in imported.notes] == ["take"]
    assert imported.scenario.link.latency_s == 1e-4
    assert imported.scenario.config.buffer_timeout_interval_s == 0.01


def test_overrides_replace_what_was_measured():
    given = Overrides(
        record_bytes={"": 100},
        service_s={"stage2": 0.5},
        rate={"source": 7.0},
        options={"heartbeat.timeout": "9 s"},
    )
    cluster = ReplayedCluster(recording(DEPTH2))
    scenario = read(cluster, overrides=given).scenario
    source, stage1, stage2 = scenario.vertices
    assert (source.source.record_bytes, source.source.rates) == (100, (7.0,))
    assert stage2.service == ((0.0, 0.5),)
    assert stage1.service[0][1] == pytest.approx(1e-4, rel=0.07)
    assert scenario.config.heartbeat_timeout_s == 9


def test_the_work_of_a_vertex_with_windows_is_done_when_they_fire():
    _, before, _ = read(ReplayedCluster(recording(DEPTH2))).scenario.vertices
    given = Overrides(window_s={"stage1": 2.0})
    _, stage1, stage2 = read(ReplayedCluster(recording(DEPTH2)), overrides=given).scenario.vertices
    assert (stage1.service, stage1.emit_every_s) == ((), 2.0)
    assert stage1.emit_cost_s * stage1.selectivity == pytest.approx(before.service[0][1], rel=0.01)
    assert (stage2.emit_every_s, stage2.emit_cost_s) == (None, 0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Overrides(window_s={"source": 1.0}), "source: no vertex with input has this name"),
        (Overrides(service_s={"stage9": 1.0}), "stage9: no vertex with input has this name"),
        (Overrides(service_s={"source": 1.0}), "source: no vertex with input has this name"),
        (
            Overrides(rate={"stage1": 1.0}),
            "stage1: no source has this name; the job has source. Set rate for one of these.",
        ),
        (
            Overrides(options={"heartbeat.timeouts": "1 s"}),
            "heartbeat.timeouts: no version of Flink that netstack knows has this option",
        ),
    ],
)
def test_an_override_that_fits_nothing_is_refused(given, message):
    cluster = ReplayedCluster(recording(ON1S))
    with pytest.raises(InputError) as caught:
        read(cluster, overrides=given)
    assert caught.value.problems[0].startswith(message)


def _without_the_past(imported: Imported) -> list[Vertex]:
    """The vertices, but for how far they are behind, of which checkpoints tell."""
    return [replace(vertex, behind_s=(0.0,)) for vertex in imported.scenario.vertices]


@pytest.mark.parametrize(
    ("part", "still"),
    [
        ("/jobmanager/config", "configuration"),
        ("/checkpoints/config", "checkpoint settings"),
        ("/taskmanagers", "/taskmanagers"),
        ("/checkpoints/details", "no completed checkpoint"),
        ("/jobs/{job}/checkpoints", "no completed checkpoint"),
    ],
)
def test_a_missing_path_costs_only_what_it_would_have_told(part, still):
    cluster = ReplayedCluster(recording(ON1S))
    whole = read(cluster)
    cluster = ReplayedCluster(recording(ON1S))
    assert cluster.forget(part.format(job=cluster.job))
    rest = read(cluster)
    assert _without_the_past(rest) == _without_the_past(whole)
    assert rest.scenario.edges == whole.scenario.edges
    assert any(still in note for note in rest.notes)
    assert not any(still in note for note in whole.notes)


def test_without_a_list_of_metrics_the_totals_of_the_vertex_stand_in():
    cluster = ReplayedCluster(recording(ON1S))
    cluster.forget(f"{cluster.vertex('stage1')}/subtasks/0/metrics")
    imported = read(cluster)
    stage = imported.scenario.vertices[1]
    # Since the start, in which the first second of the job is counted too.
    assert stage.service[0][1] == pytest.approx(0.005, rel=0.02)
    assert imported.measured.steady.vertices[1].records_in_per_s == [None, None]
    assert any("subtasks/0/metrics" in note for note in imported.notes)


def test_without_the_details_of_vertices_task_managers_are_noted():
    cluster = ReplayedCluster(recording(ON1S))
    for vertex in ("source", "stage1"):
        del cluster.answers[f"/jobs/{cluster.job}/vertices/{cluster.vertex(vertex)}"]
    imported = read(cluster)
    assert any("task managers of subtasks are not reported" in note for note in imported.notes)
    assert imported.scenario.vertices[1].service[0][1] == pytest.approx(0.005, rel=0.01)


def test_names_are_listed_from_subtask_0_and_values_read_of_all_together():
    cluster = ReplayedCluster(recording(ON1S))
    read(cluster)
    metrics = [path for path in cluster.asked if "/vertices/" in path and path.endswith("/metrics")]
    lists = [path for path in metrics if path.endswith("/subtasks/0/metrics")]
    # All values of two subtasks fit into one request.
    assert (len(lists), len(metrics)) == (2, 2 + 2 * POLLS)


def test_flink_2_3_is_read_with_its_own_defaults_and_options() -> None:
    cluster = ReplayedCluster(recording("flink-2.3.0_wordcount_on1s"))
    cluster.answers["/jobmanager/config"].append(
        {"key": "taskmanager.network.adaptive-partitioner.enabled", "value": "true"}
    )
    imported = read(cluster)
    scenario = imported.scenario
    assert (scenario.preset, len(scenario.vertices)) == ("flink-2.3", 2)
    assert scenario.config.debloat_enabled
    assert scenario.config.adaptive_partitioner_enabled
    assert not any("defaults of" in str(note) for note in imported.notes)


@pytest.mark.parametrize("at_consumers", [False, True])
def test_checkpoints_during_recovery_are_imported_with_the_option_that_they_need(at_consumers: bool) -> None:
    unaligned = "execution.checkpointing.unaligned"
    cluster = ReplayedCluster(recording("flink-2.3.0_wordcount_on1s"))
    cluster.answers["/jobmanager/config"] += [
        {"key": f"{unaligned}.during-recovery.enabled", "value": "true"},
        {"key": f"{unaligned}.recover-output-on-downstream.enabled", "value": str(at_consumers).lower()},
    ]
    imported = read(cluster)
    config = imported.scenario.config
    assert (config.recover_output_on_downstream, config.checkpoints_during_recovery) == (at_consumers,) * 2
    assert any("during-recovery" in str(note) for note in imported.notes) != at_consumers


class TestWhatJobsDo:
    """Recordings with other counts: what the emulated job has to look like then."""

    def test_a_source_that_idles_emits_at_its_rate(self):
        cluster = ReplayedCluster(recording(ON1S))
        for subtask in (0, 1):
            cluster.change_metrics("source", subtask, _paced)
        scenario = read(cluster).scenario
        assert scenario.vertices[0].source.rates == (100.0,)

    def test_a_source_that_never_idles_would_emit_more_without_back_pressure(self):
        cluster = ReplayedCluster(recording(ON1S))
        cluster.change_metrics("source", 1, _half_held)
        scenario = read(cluster).scenario
        assert scenario.vertices[0].source.rates == (0.0, 200.0)

    def test_a_slow_subtask_is_skew(self):
        def idler(metric: str, value: float, number: int) -> float | None:
            """A quarter of the work, and nothing to do for the rest."""
            return {"accumulateBusyTimeMs": value / 4, "accumulateIdleTimeMs": 12000 + 1500 * number}.get(
                metric
            )

        cluster = ReplayedCluster(recording(DEPTH2))
        cluster.change_metrics("stage2", 0, idler)
        scenario = read(cluster).scenario
        stage = scenario.vertices[2]
        costs = [stage.service_steps(subtask)[0][1] for subtask in (0, 1)]
        assert costs == pytest.approx([0.00025, 0.001], rel=0.02)

    def test_what_subtasks_read_of_a_hash_exchange_is_their_share(self):
        def rare(metric: str, value: float, number: int) -> float | None:
            """A quarter of the records, in a quarter of the time."""
            quarter = value / 4 if metric in ("accumulateBusyTimeMs", "numRecordsIn", "numBytesIn") else None
            return 12000 + 1196 * number if metric == "accumulateIdleTimeMs" else quarter

        cluster = ReplayedCluster(recording(DEPTH2))
        cluster.change_metrics("stage2", 0, rare)
        cluster.ship("stage2", "HASH")
        scenario = read(cluster).scenario
        stage, exchange = scenario.vertices[2], scenario.edges[1]
        slow, fast = (stage.service_steps(subtask)[0][1] for subtask in (1, 0))
        assert slow / fast == pytest.approx(1, rel=0.02)
        assert exchange.shares == pytest.approx([0.2, 0.8], abs=0.01)

    def test_a_vertex_that_filters_emits_a_part(self):
        def tenth(metric: str, value: float, number: int) -> float | None:
            return value / 10 if metric == "numRecordsOut" else None

        cluster = ReplayedCluster(recording(DEPTH2))
        for subtask in (0, 1):
            cluster.change_metrics("stage1", subtask, tenth)
        scenario = read(cluster).scenario
        assert scenario.vertices[1].selectivity == pytest.approx(0.1, rel=0.02)
        assert scenario.edges[1].fraction == 1

    def test_subtasks_run_where_they_run(self):
        cluster = ReplayedCluster(recording(DEPTH2))
        for vertex, managers in (("stage1", ("tm9", "tm9")), ("stage2", ("tm9", "tm3"))):
            path = f"/jobs/{cluster.job}/vertices/{cluster.vertex(vertex)}"
            for subtask, manager in zip(cluster.answers[path]["subtasks"], managers, strict=True):
                subtask["taskmanager-id"] = manager
        scenario = read(cluster).scenario
        _, stage1, stage2 = scenario.vertices
        assert (stage1.task_manager, stage2.task_manager) == ("tm9", ("tm9", "tm3"))

    def test_output_at_times_is_a_window(self):
        def fires(metric: str, value: float, number: int) -> float | None:
            """A hundred records every fourth look, which are two seconds apart."""
            return 1000 + 100 * (number // 4) if metric == "numRecordsOut" else None

        cluster = ReplayedCluster(recording(DEPTH2))
        for subtask in (0, 1):
            cluster.change_metrics("stage1", subtask, fires)
        cluster.describe("stage1", "Window(TumblingEventTimeWindows(7000), EventTimeTrigger)")
        scenario = read(cluster).scenario
        assert scenario.vertices[1].emit_every_s == 7

    def test_a_source_whose_counts_go_up_in_steps_emits_bursts(self):
        def steps(metric: str, value: float, number: int) -> float | None:
            if metric == "numRecordsOut":
                return 10_000 + 200 * number
            return _paced(metric, value, number)

        cluster = ReplayedCluster(recording(ON1S))
        for subtask in (0, 1):
            cluster.change_metrics("source", subtask, steps)
        source = read(cluster).scenario.vertices[0].source
        assert source.burst_s is not None
        assert source.rates[0] * source.burst_s == pytest.approx(200)

    def test_unreadable_and_ignored_options_are_noted(self):
        cluster = ReplayedCluster(recording(ON1S))
        cluster.answers["/jobmanager/config"] += [
            {"key": "taskmanager.network.memory.floating-buffers-per-gate", "value": "3"},
            {"key": "taskmanager.memory.segment-size", "value": "lots"},
        ]
        imported = read(cluster)
        assert imported.scenario.config.floating_buffers_per_gate == 8
        assert imported.scenario.config.segment_bytes == PRESETS["flink-2.2"].segment_bytes
        assert [note for note in imported.notes if "ignores it" in note or "segment-size" in note] == [
            "taskmanager.memory.segment-size: 'lots' is not a whole number with a unit; "
            "assuming the default.",
            "taskmanager.network.memory.floating-buffers-per-gate is configured, but Flink 2.2.1 "
            "ignores it, so it is ignored here, too.",
        ]

    def test_flink_1_obeys_the_numbers_of_buffers(self):
        cluster = ReplayedCluster(recording(ON1S_OF_1X))
        option = {"key": "taskmanager.network.memory.floating-buffers-per-gate", "value": "3"}
        cluster.answers["/jobmanager/config"].append(option)
        scenario = read(cluster).scenario
        assert scenario.config.floating_buffers_per_gate == 3

    def test_the_job_s_own_checkpoint_settings_go_before_the_cluster_s(self):
        cluster = ReplayedCluster(recording(ON1S))
        told = cluster.answers[f"/jobs/{cluster.job}/checkpoints/config"]
        told.update(interval=30000, unaligned_checkpoints=True, aligned_checkpoint_timeout=5000)
        scenario = read(cluster).scenario
        config = scenario.config
        assert (config.checkpoint_interval_s, config.unaligned_enabled) == (30, True)
        assert config.aligned_checkpoint_timeout_s == 5
        assert scenario.duration_s - scenario.warmup_s == 240

    def test_the_network_memory_of_task_managers_is_theirs(self):
        cluster = ReplayedCluster(recording(ON1S))
        shared = read(cluster)
        cluster.answers["/taskmanagers/tm1"]["metrics"]["nettyShuffleMemorySegmentsTotal"] = 300
        cluster.answers["/taskmanagers/tm1"]["allocatedSlots"] = [{"jobId": "another"}]
        scarce = read(cluster)
        given = read(
            cluster, overrides=Overrides(options={"taskmanager.memory.network.max": "64 mb"})
        ).scenario
        del cluster.answers["/taskmanagers/tm1"]["metrics"]
        untold = read(cluster)
        assert shared.scenario.config.network_memory_max_bytes == 8192 * 32768
        assert scarce.scenario.config.network_memory_max_bytes == 300 * 32768
        assert [note for note in scarce.notes if "network memory" in note] == [
            "Task managers differ in network memory; assuming that all have as little as tm1.",
            "Other jobs share the network memory of tm1; assuming that this job has all of it.",
        ]
        assert given.config.network_memory_max_bytes == 64 << 20
        assert untold.scenario.config.network_memory_max_bytes is None
        assert any("network memory of the task managers is not reported" in note for note in untold.notes)

    def test_an_unknown_ship_strategy_is_noted(self):
        cluster = ReplayedCluster(recording(ON1S))
        plan = cluster.answers[f"/jobs/{cluster.job}/plan"]["plan"]
        next(node for node in plan["nodes"] if "inputs" in node)["inputs"][0]["ship_strategy"] = "CUSTOM"
        imported = read(cluster)
        assert imported.scenario.edges[0].ship == "rebalance"
        assert "source -> stage1 ships by CUSTOM; assuming rebalance." in imported.notes

    def test_metrics_that_stand_still_say_nothing_of_now(self):
        cluster = ReplayedCluster(recording(ON1S))
        for path in [path for path in cluster.answers if path.endswith("?get=*")]:
            cluster.answers[path] = cluster.answers[path][:1]
        imported = read(cluster)
        assert any(note.startswith("The metrics did not change") for note in imported.notes)
        assert imported.measured.steady.vertices[1].records_in_per_s == [None, None]
        # That the source has been back-pressured nearly all the time is known all the same.
        assert imported.scenario.vertices[0].source.rates == (0.0,)

    def test_that_little_passes_now_is_noted(self):
        def over(metric: str, value: float, number: int) -> float | None:
            return {"numRecordsIn": 5000.0, "accumulateIdleTimeMs": 2000.0 * number}.get(metric)

        cluster = ReplayedCluster(recording(ON1S))
        cluster.change_metrics("stage1", 1, over)
        notes = read(cluster).notes
        assert [note for note in notes if "records were seen" in note] == [
            "stage1: no records were seen at subtask 1; assuming the mean cost since the start of the "
            "job. Set watch_s to a longer time."
        ]

    def test_a_sparse_source_of_the_old_kind_is_predicted_as_it_is_now(self):
        """It keeps no account of its time, and had a backlog; now it emits 20 records every 1.5 s."""

        def sparse(metric: str, value: float, number: int) -> float | None:
            values = {
                "accumulateBackPressuredTimeMs": 0,
                "accumulateIdleTimeMs": 0,
                "numBytesOut": 1017 * (200_000 + 20 * number),
                "numRecordsOut": 200_000 + 20 * number,
            }
            return values.get(metric)

        def read_all(metric: str, value: float, number: int) -> float | None:
            values = {
                "accumulateBackPressuredTimeMs": 0,
                "accumulateBusyTimeMs": 40_000 + 30 * number,
                "accumulateIdleTimeMs": 10_000 + 1470 * number,
                "numBytesIn": 1017 * (200_000 + 20 * number),
                "numRecordsIn": 200_000 + 20 * number,
            }
            return values.get(metric)

        cluster = ReplayedCluster(recording(ON1S))
        for subtask in range(2):
            cluster.change_metrics("source", subtask, sparse)
            cluster.change_metrics("stage1", subtask, read_all)
        for path, rounds in cluster.answers.items():
            if path.endswith("?get=*") and cluster.vertex("source") in path:
                for entry in (entry for entries in rounds for entry in entries):
                    entry["value"] = "NaN" if entry["id"] == "accumulateBusyTimeMs" else entry["value"]
        imported = import_scenario(Unserved(cluster), watch_s=7.5)
        source, stage = imported.scenario.vertices
        assert source.source == GeneratorSpec(
            record_bytes=1013, rates=(pytest.approx(20 / 1.5, rel=0.01),), burst_s=1.5, legacy=True
        )
        assert stage.service[0][1] == pytest.approx(0.0015, rel=0.05)
        shown = imported.measured.steady.vertices[1].records_in_per_s
        assert shown == [pytest.approx(20 / 1.5, rel=0.01)] * 2
        predicted = emulate(imported.scenario).steady[0].vertices[1].records_in_per_s
        assert sum(known(predicted)) == pytest.approx(sum(known(shown)), rel=0.05)

    def test_two_exchanges_between_the_same_vertices(self):
        cluster = ReplayedCluster(recording(ON1S))
        plan = cluster.answers[f"/jobs/{cluster.job}/plan"]["plan"]
        inputs = next(node for node in plan["nodes"] if "inputs" in node)["inputs"]
        inputs.append(inputs[0] | {"num": 1})
        scenario = read(cluster).scenario
        assert len(scenario.edges) == 2
        assert scenario.vertices[0].source.record_bytes == pytest.approx(1013, abs=2)


def _paced(metric: str, value: float, number: int) -> float | None:
    """150 records in each 1.5 s, with nothing to do for most of it."""
    values = {
        "numRecordsOut": 1000 + 150 * number,
        "numBytesOut": 1017 * (1000 + 150 * number),
        "accumulateBusyTimeMs": 10 * number,
        "accumulateIdleTimeMs": 1490 * number,
        "accumulateBackPressuredTimeMs": 0,
    }
    return values.get(metric)


def _half_held(metric: str, value: float, number: int) -> float | None:
    """The same records from a source that is busy for half of the time and back-pressured for the rest."""
    values = {
        "accumulateBusyTimeMs": 750 * number,
        "accumulateIdleTimeMs": 0,
        "accumulateBackPressuredTimeMs": 750 * number,
    }
    return values.get(metric, _paced(metric, value, number))


class TestWhatCannotBeRead:
    def test_an_address_that_is_none(self):
        with pytest.raises(FlinkRestError, match=r"localhost:8081: is not an address .* http://HOST:8081"):
            import_scenario("localhost:8081")

    def test_an_unreachable_address(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
            with pytest.raises(FlinkRestError, match="cannot be reached: Connection refused"):
                import_scenario(url)

    def test_an_address_that_is_not_flink_s(self):
        cluster = ReplayedCluster(recording(ON1S))
        cluster.answers = {"/config": {"name": "something else"}}
        with serving(cluster), pytest.raises(FlinkRestError, match="does not report its version of Flink"):
            read_served(cluster)
        cluster.answers = {}
        with (
            serving(cluster),
            pytest.raises(FlinkRestError, match=r"has no /config\. Check that this is the address"),
        ):
            read_served(cluster)

    @pytest.mark.parametrize("other", [{}, "text"], ids=repr)
    def test_answers_of_another_shape_end_in_an_error_or_in_a_scenario(self, other):
        whole = ReplayedCluster(recording(ON1S))
        for path in [path for path in whole.answers if "/details/" not in path or "/20/" in path]:
            cluster = ReplayedCluster(recording(ON1S))
            cluster.answers[path] = [other] * 6 if path.endswith("?get=*") else other
            with suppress(InputError):
                assert len(read(cluster).scenario.vertices) == 2

    def test_more_vertices_than_any_job_has(self):
        """Each would take requests of its own."""
        cluster = ReplayedCluster(recording(ON1S))
        vertices = cluster.answers[f"/jobs/{cluster.job}"]["vertices"]
        vertices += [vertices[0] | {"id": str(number)} for number in range(999)]
        with pytest.raises(FlinkRestError, match=f"job {cluster.job}: has 1,001 vertices; at most 1,000 are"):
            read(cluster)
        assert len(cluster.asked) == 3

    def test_of_many_jobs_a_message_names_the_first(self):
        cluster = ReplayedCluster(recording(ON1S))
        jobs = cluster.answers["/jobs/overview"]["jobs"]
        jobs += [jobs[0] | {"jid": f"job {number}"} for number in range(1, 100)]
        with pytest.raises(
            FlinkRestError, match=r"100 jobs are running\..* job 19 .* RUNNING\) and 80 more$"
        ):
            read(cluster)

    def test_a_job_that_is_not_there(self):
        with pytest.raises(FlinkRestError, match="has no job abc; the cluster"):
            read(ReplayedCluster(recording(ON1S)), job="abc")

    def test_several_jobs(self):
        cluster = ReplayedCluster(recording(ON1S))
        jobs = cluster.answers["/jobs/overview"]["jobs"]
        jobs.append(jobs[0] | {"jid": "other"})
        with pytest.raises(FlinkRestError, match=r"2 jobs are running\. Set job to one of these"):
            read(cluster)
        assert read(cluster, job=cluster.job).measured.job == cluster.job

    def test_too_little_data(self):
        cluster = ReplayedCluster(recording(ON1S))
        for vertex, subtask in (("source", 0), ("source", 1), ("stage1", 0), ("stage1", 1)):
            cluster.change_metrics(vertex, subtask, lambda metric, value, number: value / 1000)
        with pytest.raises(FlinkRestError) as caught:
            read(cluster)
        assert [problem.split("set the ")[1] for problem in caught.value.problems] == [
            "missing size: record_bytes={'source': 1000}.",
            "missing rate: rate={'source': 100}.",
            "missing cost: service_s={'stage1': 0.005}.",
        ]
        given = Overrides(record_bytes={"": 1000}, rate={"": 0.0}, service_s={"": 0.005})
        assert read(cluster, overrides=given).scenario.vertices[1].service == ((0.0, 0.005),)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"state": "FINISHED"}, "became FINISHED while it was watched"),
            ({"state": "RESTARTING"}, "became RESTARTING while it was watched"),
            ({"timestamps": {"RUNNING": 1}}, " restarted while it was watched"),
            (None, "stopped reporting it"),
        ],
    )
    def test_a_job_that_does_not_run_to_the_end_of_the_watch(self, change, problem):
        cluster = ReplayedCluster(recording(ON1S))
        _later(cluster, change)
        with pytest.raises(FlinkRestError, match=problem):
            read(cluster)

    def test_a_task_that_counts_anew_while_it_is_watched(self):
        def anew(metric: str, value: float, number: int) -> float | None:
            return value / 50 if number >= 3 and metric.startswith("numRecords") else None

        cluster = ReplayedCluster(recording(ON1S))
        cluster.change_metrics("stage1", 1, anew)
        with pytest.raises(FlinkRestError, match=" restarted while it was watched"):
            read(cluster)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (
                lambda job: job["vertices"][1].update(status="INITIALIZING"),
                "'stage1' is INITIALIZING",
            ),
            (lambda job: job["vertices"][0].update(parallelism=0), "Flink's are from 1 to 32768"),
            (lambda job: job["vertices"][0].update(parallelism="2"), "Flink's are from 1 to 32768"),
            (lambda job: job["vertices"][0].update(parallelism=10**9), "Flink's are from 1 to 32768"),
            (lambda job: job["vertices"].append(job["vertices"][0]), "has 2 vertices with the id"),
        ],
    )
    def test_a_job_that_cannot_be(self, change, problem):
        cluster = ReplayedCluster(recording(ON1S))
        change(cluster.answers[f"/jobs/{cluster.job}"])
        with pytest.raises(FlinkRestError, match=problem):
            read(cluster)

    def test_a_job_without_an_exchange(self):
        cluster = ReplayedCluster(recording(ON1S))
        cluster.answers[f"/jobs/{cluster.job}"]["vertices"].pop()
        cluster.answers[f"/jobs/{cluster.job}/plan"]["plan"]["nodes"].pop(0)
        with pytest.raises(FlinkRestError, match="has no exchange"):
            read(cluster)

    def test_a_want_of_counts_is_told_with_the_paths_that_would_have_had_them(self):
        cluster = ReplayedCluster(recording(ON1S))
        cluster.forget("/vertices/")
        with pytest.raises(FlinkRestError, match="too little is known") as caught:
            read(cluster)
        assert "/vertices/" in caught.value.problems[-1]


def _later(cluster: ReplayedCluster, change: dict[str, object] | None) -> None:
    """Change the answer about the job, from the second time on; None: it is gone."""
    path, first = f"/jobs/{cluster.job}", cluster.answer

    def answer(asked: str, query: dict[str, list[str]]) -> object:
        told = first(asked, query)
        if asked != path or cluster.asked.count(path) == 1:
            return told
        return None if change is None else told | change

    cluster.answer = answer
