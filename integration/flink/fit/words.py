"""Sentences for the remarks of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from ...base.errors import Note, Parameter
from ...base.number_text import NOTHING, milliseconds, time_span
from ...base.optional_figures import known
from ...runs.reference_comparison import ComparedFigure
from ..read.past_window import moment_text, span_text
from .noted import Remark, some
from .processor_time import CoreUse
from .steadiness import Levels, Movement

IF_CPU_BOUND = Parameter("service_mode", "burn", of="")
"""Override of all vertices that a note advises if it is unknown whether work is CPU-bound."""

MISSING = frozenset({"size_unknown", "rate_unknown", "cost_unknown", "busy_time_unreported"})
"""Kinds of remarks without whose parameter there is no scenario."""

_COSTS = "{figures}{had_core}. The costs are processor time, including any other use of the cores."
_WAITS = "; assuming that the work of tasks is not CPU-bound, but waits (for example for I/O)."
_STEADY = "; the emulation assumes the mean, so its figures are for a steady load"
_NOW = "; predictions hold for this moment"
_REPEATED = "; the emulation repeats the course of {names}"

SENTENCES: Mapping[str, str] = {
    # job_options.py
    "preset_assumed": "Assuming the defaults of {preset} for Flink {version}.",
    "configuration_unreported": "The cluster does not report its configuration; assuming Flink's defaults.",
    "ignored_by_flink": "{where} is configured, but Flink {version} ignores it, so it is ignored here, too.",
    "other_shuffle_service": "The shuffle service is {factory}; assuming Flink's own.",
    "checkpoint_settings_unreported": "The job does not report its checkpoint settings; assuming those of "
    "the cluster.",
    "no_checkpoints": "The job takes no periodic checkpoints.",
    "option_unreadable": "{where}: {wrong}; assuming the default.",
    "no_effect": "{where} has no effect unless {needed} is true; it is ignored.",
    "begins_with_full_buffers": "In Flink 1.x, debloating begins with buffers of full size; {where} is set "
    "accordingly.",
    # vertices.py
    "few_records": "{where}: fewer than {least} records were seen at subtask {subtasks}, so rates and costs "
    "are uncertain.",
    "firings_unseen": "{where}: its windows hardly fired while watched; using its mean output per record "
    "since the start of the job.",
    "none_read": "{where}: no records were seen at subtask {subtasks}; assuming the mean cost since the "
    "start of the job.",
    "none_emitted": "{where}: no records were seen at subtask {subtasks}; assuming {per_s:g} records/s.",
    "size_unknown": "{where}: too little is known about its load: each subtask must have emitted at least "
    "{least} records.",
    "rate_unknown": "{where}: too little is known about its load: each subtask must have emitted at least "
    "{least} records.",
    "cost_unknown": "{where}: too little is known about its load: each subtask must have read at least "
    "{least} records.",
    "busy_time_unreported": "{where}: its busy time is not reported.",
    "record_too_short": "{where}: a record has only {bytes} bytes; assuming {least}, the least that is "
    "possible.",
    "hardly_emits": "{where}: subtask {subtasks} emitted next to nothing; assuming {per_s:g} records/s.",
    "hardly_reads": "{where}: subtask {subtasks} has read next to nothing; assuming the mean cost of the "
    "others.",
    "output_unreported": "{where}: its output is not reported; assuming one record for each record that it "
    "reads.",
    "no_output": "{where}: no records were seen leaving it; assuming that it emits none.",
    "cost_varies": "{where}: the cost of a record varies, so the measured cost is uncertain by {percent:.2g} "
    "%. Runs with different seeds use costs that differ by as much.",
    # event_time.py
    "watermark_lag_unreported": "{where}: the lag of its watermarks is not reported; assuming no lag.",
    # edges.py
    "ship_unknown": "{where} ships by {strategy}; assuming {ship}.",
    "ship_unreported": "{where} does not report its ship strategy; assuming {ship}.",
    "not_pipelined": "{where} is {exchange}; assuming pipelined.",
    "broadcast_cost_unreported": "{where}: the cost of a broadcast record of {source} is not reported; "
    "assuming that it takes no time. If it does, set the service of this edge in the scenario.",
    "keys_by_input_unreported": "{where}: Flink does not report how many records a subtask reads from each "
    "exchange; assuming the same distribution of keys in all.",
    # union_or_join.py
    "union": "{where} reads {exchanges} exchanges; assuming a union{why}.",
    "join": "{where} reads {exchanges} exchanges; assuming a join{why}.",
    # window_work.py
    "window_reads": "{where}: Flink does not report when its windows work; assuming for each record "
    "read{why}.",
    "window_fires": "{where}: Flink does not report when its windows work; assuming when they fire{why}.",
    # work_by_input.py
    "input_works": "{where}: Flink does not report which input takes its time; assuming different costs of "
    "their records{why}. Its edges in the scenario have them.",
    # fit_scenario.py
    "network_memory_unreported": "The network memory of the task managers is not reported; assuming "
    "unlimited.",
    "network_memory_differs": "Task managers differ in network memory; assuming that all have as little as "
    "{where}.",
    "network_memory_shared": "Other jobs share the network memory of {where}; assuming that this job has all "
    "of it.",
    # processor_time.py
    "cpu_bound": "{where}: the work of tasks is CPU-bound" + _COSTS,
    "cpu_bound_elsewhere": "{where}: as on the other machines, the work of tasks is CPU-bound" + _COSTS,
    "cpu_bound_by_override": "{where}: as overridden, the work of tasks is CPU-bound" + _COSTS,
    "whole_core_assumed": "{where}: {silent} of {tasks} tasks with CPU-bound work do not report their busy "
    "time; assuming that each had a whole core.",
    "cores_unreported": "{where}: the number of cores is not reported; assuming as many as the tasks need.",
    "use_of_cores_unreported": "{where}: there are fewer cores than tasks, and it is not reported whether "
    "the work of tasks is CPU-bound" + _WAITS,
    "cores_used_by_others": "{where}: other tasks may run there, too, so it is unknown whether the work of "
    "this job is CPU-bound" + _WAITS,
    "cores_sampled": "The processor time was read of {polled} of {managers} task managers; assuming the "
    "median of their cores in use for the others.",
    "waits_for_cores_unknown": "{where}: the number of cores is not reported, so it is unknown whether tasks "
    "wait for one{figures}" + _WAITS,
    "user_of_cores_unknown": "{where}: this work may have used the cores, or other work may "
    "have{silent_tasks}{figures}" + _WAITS,
    # steadiness.py
    "cost_alternated": "{where}: the cost of a record changed between {low} and {high} while the job was "
    "read ({samples} samples){with_it}.",
    "cost_changed": "{where}: the cost of a record {movement}{with_it}.",
    "rate_alternated": "The rate of {where} changed between {low} and {high} records/s while the job was "
    "read ({samples} samples){with_it}.",
    "queue_alternated": "The queue before {where} grew and shrank: its barriers waited between {low} and "
    "{high} in the last {samples} checkpoints{with_it}.",
    "rate_changed": "The rate of {where} {movement}{with_it}.",
    "queue_grew": "The queue before {where} grew: the wait of its barriers {movement}{with_it}.",
    "queue_shrank": "The queue before {where} shrank: the wait of its barriers {movement}{with_it}.",
    "calm_moment": "A tenth of all {completed:,} checkpoints of the job took {p90} or more, but the last "
    "{last} at most {longest}: the job was read in a calm moment.",
    # importing.py
    "batch": "It is a batch job; assuming a streaming job.",
    "metrics_unchanged": "The metrics did not change while they were watched; assuming means since the start "
    "of the job.",
    "places_unreported": "The task managers of subtasks are not reported; assuming one for each vertex.",
    "latency_unreported": "Latency between task managers is not reported; assuming loopback.",
    "timeout_unreported": "A buffer timeout that the job sets itself is not reported; assuming 100 ms.",
    "no_completed_checkpoint": "The history contains no completed checkpoint, so delays are unknown.",
    "checkpoints_back_to_back": "Checkpoints take {taken_s:.2g} s, and the interval is {interval_s:g} s. So "
    "channels are blocked most of the time, which misleads debloating. Delays differ by up to a fifth "
    "between runs.",
    "past": "The figures are those of {span}.",
    "past_slowest": "The figures are those of {span}, when checkpoints were slowest: {mean} on average, and "
    "{usual} in the median over the {searched} that were searched.",
    "past_failed_elsewhere": "Checkpoints also failed outside this time, first at {failed_at}. They have no "
    "duration, so the search leaves them out.",
    "past_other_id": "The job had the id {where} then.",
    "past_gaps": "Prometheus has figures of all subtasks at {complete} of {moments} moments of this time; "
    "the others are left out.",
    "past_managers_gone": "The task managers {where} are gone; assuming the cores of the present ones.",
    "past_checkpoint_before": "No checkpoint completed in this time; using the last one before.",
    "past_unreported": "Prometheus has no synchronous and asynchronous times, no stored bytes of each "
    "subtask, and start delays only of the last barrier at each scrape{missing}. Plan and options are those "
    "that the cluster reports, not those of that time.",
    "paths_missing": "The cluster does not offer {paths}, or fails to answer; their figures are unknown.",
}
"""The sentence of each kind of remark, with the names of its values."""

_OVERRIDE, _USE = "Set {} to override.", "Use {} to override."
_WATCH, _CORES, _COST = Parameter("watch_s"), Parameter("cores"), Parameter("service_s", 0.005, of="{where}")

_ADVICE: Mapping[str, tuple[str, *tuple[Parameter, ...]]] = {
    "past_failed_elsewhere": ("Set {} to such a time to read it.", Parameter("begin_s")),
    "configuration_unreported": (_USE, Parameter("options")),
    "no_checkpoints": ("Use {} to add them.", Parameter("options", "10 s", of="{where}")),
    "size_unknown": ("Wait, or set the missing size: {}.", Parameter("record_bytes", 1000, of="{where}")),
    "rate_unknown": ("Wait, or set the missing rate: {}.", Parameter("rate", 100, of="{where}")),
    "cost_unknown": ("Wait, or set the missing cost: {}.", _COST),
    "busy_time_unreported": ("Set the cost of a record: {}.", _COST),
    "union": (_OVERRIDE, Parameter("inputs", "join", of="{where}")),
    "join": (_OVERRIDE, Parameter("inputs", "union", of="{where}")),
    "window_reads": (
        "If they work when they fire, set {}.",
        Parameter("window_s", 10, of="{where}"),
    ),
    "window_fires": (
        "If they work for each record, set its cost: {}.",
        Parameter("service_s", 0.005, of="{where}"),
    ),
    "network_memory_unreported": (_USE, Parameter("options", "128 mb", of="taskmanager.memory.network.max")),
    "cores_unreported": (_OVERRIDE, _CORES),
    "waits_for_cores_unknown": (_OVERRIDE, _CORES),
    "metrics_unchanged": ("Set {} to a longer time.", _WATCH),
    "latency_unreported": (_OVERRIDE, Parameter("latency_s")),
    "timeout_unreported": (_USE, Parameter("options", "50 ms", of="execution.buffer-timeout.interval")),
    **dict.fromkeys(
        ("few_records", "firings_unseen", "none_read", "none_emitted", "no_output", "cost_varies"),
        ("Set {} to a longer time.", _WATCH),
    ),
    **dict.fromkeys(
        ("use_of_cores_unreported", "cores_used_by_others", "user_of_cores_unknown"),
        ("Set {} if the work is CPU-bound.", IF_CPU_BOUND),
    ),
    **dict.fromkeys(
        ("cpu_bound", "cpu_bound_elsewhere", "cpu_bound_by_override"),
        (
            "If the work of a vertex waits and is not CPU-bound, set {}. To override the number of cores, "
            "set {}.",
            Parameter("service_mode", "throttle", of="VERTEX"),
            _CORES,
        ),
    ),
}
"""The advice that follows a sentence, and the parameters that it names."""

_WHY = {
    "named": ", as its name says",
    "too_long": ", since emulating both takes too long",
    "not_comparable": ", since emulations of both cannot be compared",
    "alike": ", since {other} has about the same effect",
    "nearer": ", which is nearer to what Flink reports ({evidence})",
}

_INPUTS, _WINDOWS = ("as", "a join", "a union"), ("with", "work for each record", "work when they fire")
_COSTS_OF_INPUTS = ("with", "one cost", "different costs")
_FORMS = {
    "join": _INPUTS,
    "union": _INPUTS,
    "window_reads": _WINDOWS,
    "window_fires": _WINDOWS,
    "input_works": _COSTS_OF_INPUTS,
}
"""The forms of a vertex between which an emulation decides, and the word before them."""


def note_of(remark: Remark) -> Note:
    """Return the sentence of a remark, with the parameters that override what it assumes."""
    advice, *parameters = _ADVICE.get(remark.kind, ("",))
    named = (each._replace(of=each.of and each.of.format(where=remark.where)) for each in parameters)
    text = SENTENCES[remark.kind].format(where=remark.where, **_texts(remark.kind, remark.values))
    return Note(text, *named, advice=advice)


def change_text(remark: Remark) -> str:
    """Return the sentence on what changed while a job was read, without what the emulation does about it."""
    return note_of(replace(remark, values={**remark.values, "repeated": None})).text


def _texts(kind: str, values: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of a remark as its sentence needs them."""
    texts = dict(values)
    for name in ("subtasks", "others", "paths"):
        if name in values:
            texts[name] = some(values[name])
    if "begin_s" in values:
        texts["span"] = span_text(values["begin_s"], values["end_s"])
    if values.get("failed_at"):
        texts["failed_at"] = moment_text(min(values["failed_at"]))
    if "mean_ms" in values:
        texts |= {name: milliseconds(values[f"{name}_ms"]) for name in ("mean", "usual")}
        texts["searched"] = time_span(values["searched_s"])
    if "missing" in values:
        missing = ", ".join(values["missing"])
        texts["missing"] = f". It also lacks {missing}, so these are unknown" if missing else ""
    if "why" in values:
        evidence = _evidence(kind, *values["rows"]) if "rows" in values else ""
        texts["why"] = _WHY[values["why"]].format(evidence=evidence, other=_FORMS[kind][2])
    if "uses" in values:
        unreported = sum(use.unreported for use in values["uses"])
        silent = f", such as that of {unreported} tasks that do not report their busy time"
        texts["silent_tasks"] = silent if unreported else ""
        shares = [100 * share for share in known(values.get("core_shares", ()))]
        had_core = f". They had a core for {_range(shares, '.0f')} % of their busy time" if shares else ""
        texts["had_core"] = had_core
        texts["figures"] = _figures(values["uses"])
    if kind == "calm_moment":
        texts |= {name: milliseconds(values[f"{name}_ms"]) for name in ("p90", "longest")}
    if "change" in values:
        texts |= _change(kind, values["change"])
        also = f", and that of {texts['others']} changed with it" if values["others"] else ""
        assumed = _NOW if isinstance(values["change"], Movement) else _STEADY
        if values["repeated"] is None:
            assumed = ""
        elif values["repeated"]:
            assumed = _REPEATED.format(names=some(values["repeated"]))
        texts["with_it"] = also + assumed
    return texts


def _evidence(kind: str, present: ComparedFigure, other: ComparedFigure) -> str:
    """Return, as text, the figure that decides between two alternatives."""
    figures = (present.flink, other.ours, present.ours)
    measured, *ours = (NOTHING if each is None else f"{each.median:.0f}" for each in figures)
    of = f" of {present.vertex}" if present.vertex else ""
    by, first, second = _FORMS[kind]
    emulated = f"emulated {by} {second} {ours[0]}, {by} {first} {ours[1]}"
    return f"{present.quantity}{of}: {measured} {present.unit}; {emulated}"


def _figures(uses: Sequence[CoreUse]) -> str:
    """Return, as text, the cores in use on machines, all cores, and the use by tasks with known busy time."""
    in_use = known(use.host.cores_in_use for use in uses)
    if not in_use:
        return ""
    cores = [use.cores for use in uses]
    of = "" if inf in cores else f" of {_range(cores, 'g')}"
    each = "" if len(uses) == 1 else " on each machine"
    would_use = _range([use.would_use for use in uses], ".2f")
    return (
        f" ({_range(in_use, '.2f')}{of} cores in use{each}; tasks that report their busy time would use "
        f"{would_use} if CPU-bound)"
    )


def _range(values: Sequence[float], form: str) -> str:
    """Return the least and the greatest value as text; once if they are the same."""
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def _change(kind: str, change: Movement | Levels) -> dict[str, str]:
    """Return, as texts, the movement of a value or its two levels."""
    if isinstance(change, Movement):
        percent, seconds = 100 * abs(change.share), change.seconds
        done = "rose" if change.share > 0 else "fell"
        per_s = f"{percent / seconds:.2g}"
        return {"movement": f"{done} by {percent:.0f} % in {seconds:.0f} s ({per_s} % per second)"}
    shown = {"cost_alternated": _cost, "queue_alternated": milliseconds}.get(kind, "{:,.0f}".format)
    return {"low": shown(change.low), "high": shown(change.high), "samples": str(change.samples)}


def _cost(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"
