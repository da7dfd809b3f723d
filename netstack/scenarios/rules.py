"""Rules for scenarios, their faults and changes: pure functions that yield mistakes.

A mistake is a pair: its key in a scenario file, and a message that says what would be correct.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from buffers import DEFAULT_MAX_RECORD_BYTES

from ..errors import ScenarioError
from .changes import ScheduledChange
from .checkpoint_modes import CheckpointMode
from .config_rules import (
    Problem,
    cost_problems,
    link_problems,
    option_key,
    option_problems,
    policy_problems,
    restart_notices,
    setting_notices,
)
from .faults import (
    MESSAGES,
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    Fault,
    KillSubtask,
    KillTaskManager,
    OnAcknowledgement,
    OnChannel,
    SubtaskName,
)
from .options import CHANGEABLE, OPTIONS, PRESETS
from .scenario import (
    CATCH_UP_S,
    EMISSIONS,
    EMITS_BY,
    FROM_SOURCE,
    KEY_BYTES,
    MAX_PARALLELISM,
    SERVICE_MODES,
    SHIPS,
    Edge,
    GeneratorSpec,
    Keys,
    PathSpec,
    Scenario,
    SourceObject,
    Step,
    Vertex,
    changed,
    mean_factor,
)
from .ship_strategies import ShipStrategy, channel_counts
from .tables import did_you_mean, keys_of, without_unit
from .unit_texts import time_text
from .user_code import NamedObject
from .value_kinds import Subsystem
from .watermark_reach import sources_of, sources_with_watermarks

__all__ = ["check_scenario", "edge_key", "option_notices", "scenario_problems", "vertex_key"]

MAX_KEYS = 10_000_000
"""Maximum number of keys of a generator, since the frequency of each key is kept in memory."""
MAX_DURATION_S = 366 * 86_400.0
"""Maximum length of a run, in seconds."""

_ROUNDING = 1e-9
_MEAN_DIFFERS = 0.01
_UNPACED = "a rate of the source is 0 (as fast as possible); give a rate above 0"
_LEAST_WINDOW_S = 0.001  # event time is in milliseconds, as in Flink
_LEAST_BUFFERS = {"exclusive": 0, "floating": 1, "partition": 2, "max_per_channel": 2}
_OUTPUT_FIELDS = (
    "selectivity", "emission", "record_bytes", "emit_every_s", "emit_by", "emit_keys", "emit_cost_s",
)  # fmt: skip
"""The fields that determine the output of a vertex."""

LARGEST_SPREAD = 0.5
"""Smallest relative standard error at which a cost counts as unknown."""
MOST_RECORD_SPREAD = 3.0
"""Greatest relative standard deviation of the bytes of records."""

_NAME_ONLY = "is a Python object, which a file cannot hold; build the scenario in Python"


def check_scenario(scenario: Scenario) -> None:
    """Check that a scenario is valid.

    Raises:
        ScenarioError: if it is invalid, with a line for each mistake.
    """
    problems = [f"{key}: {message}" for key, message in scenario_problems(scenario)]
    if problems:
        raise ScenarioError(problems)


def scenario_problems(scenario: Scenario, *, to_run: bool = True) -> list[Problem]:
    """Return the mistakes of a scenario, in the order of a scenario file.

    The debloating policy is checked only with `to_run`, because the check imports it.
    """
    vertices, edges = list(_about_vertices(scenario)), list(_about_edges(scenario))
    cycles, names = list(_about_cycles(scenario)), list(_about_names(scenario))
    problems = [
        *_about_time(scenario),
        *option_problems(scenario.config),
        *(policy_problems(scenario.config) if to_run else ()),
        *cost_problems(scenario.costs),
        *link_problems(scenario.link),
        *vertices,
        *edges,
        *_about_machines(scenario),
        *(names if to_run else ()),
        *cycles,
    ]
    if not (edges or names or cycles):  # without the Python object, its key is unknown
        problems += _about_keys(scenario)
    if not (vertices or edges or cycles):  # needed to find the vertices of watermarks and faults
        problems += event_time_problems(scenario)
        problems += fault_problems(scenario)
    return [*problems, *change_problems(scenario, to_run=to_run)]


def option_notices(scenario: Scenario) -> list[Problem]:
    """Return notices for given options that are valid but behave differently in Flink."""
    notices = []
    for field in sorted(scenario.config.given & OPTIONS.keys()):
        option = OPTIONS[field]
        if option.only_1x and scenario.flink_version.major > 1:
            notices.append((option_key(field), "has an effect in netstack, but a real Flink 2 ignores it"))
        elif option.since is not None and scenario.flink_version < option.since:
            text = f"has an effect in netstack, but a real Flink before {option.since} ignores it"
            notices.append((option_key(field), text))
        elif option.inert:
            notices.append((option_key(field), "is accepted, but has no effect in netstack"))
    restarts = restart_notices(scenario.config, scenario.restart_strategy)
    return [*notices, *setting_notices(scenario.config), *restarts]


def vertex_key(name: str, field: str = "") -> str:
    """Return the key of a vertex or of one of its fields in scenario files."""
    return f"vertices.{name}.{field}".removesuffix(".")


def edge_key(edge: Edge, field: str = "") -> str:
    """Return the key of an edge or of one of its fields in scenario files."""
    return f"edges.{edge.source}->{edge.target}.{field}".removesuffix(".")


def _in_table(table: str, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the mistakes in a table of a scenario file, with their full keys."""
    for field, message in problems:
        yield f"{table}.{field}".removesuffix("."), message


def _known(key: str, value: str, known: Collection[str]) -> Iterator[Problem]:
    """Yield a mistake unless a value is one of the known ones."""
    if value not in known:
        yield key, f"{value!r} is unknown; {did_you_mean(value, known)}"


def _exists(key: str, what: str, name: str, names: Collection[str]) -> Iterator[Problem]:
    """Yield a mistake unless the vertex or task manager (`what`) exists."""
    if name not in names:
        yield key, f"no {what} is named {name!r}; {did_you_mean(name, names)}"


def _positive(key: str, seconds: float | None) -> Iterator[Problem]:
    if seconds is not None and not 0 < seconds < math.inf:
        yield key, f"is {time_text(seconds)}; it must be more than 0 s"


def _not_negative(key: str, seconds: float | None) -> Iterator[Problem]:
    if seconds is not None and not 0 <= seconds < math.inf:
        yield key, f"is {time_text(seconds)}; it must be 0 s or more"


def _before_end(key: str, at_s: float, scenario: Scenario) -> Iterator[Problem]:
    if not 0 <= at_s < scenario.duration_s:
        end = time_text(scenario.duration_s)
        yield key, f"is {time_text(at_s)}; it must be from 0 s to before the end, {end}"


def _about_time(scenario: Scenario) -> Iterator[Problem]:
    duration = scenario.duration_s
    if not scenario.name:
        yield "name", "is empty; give the scenario a name"
    if wrong := list(_positive("duration", duration)):
        yield from wrong
        return
    if duration > MAX_DURATION_S:
        yield "duration", f"is {duration:g} s; it must be at most {time_text(MAX_DURATION_S)} (a year)"
        return
    if not 0 <= scenario.warmup_s < duration:
        text = f"is {time_text(scenario.warmup_s)}; it must be less than the duration, {time_text(duration)}"
        yield "warmup", text
    if scenario.seed < 0:
        yield "seed", f"is {scenario.seed}; it must be 0 or more"
    yield from _known("preset", scenario.preset, PRESETS)
    if scenario.checkpoints_from_s is not None:
        if scenario.config.checkpoint_interval_s is None:
            key = option_key("checkpoint_interval_s")
            yield "checkpoints_from", f"has no effect without periodic checkpoints; give {key}, or remove it"
        elif not 0 <= scenario.checkpoints_from_s < duration:
            text = f"is {time_text(scenario.checkpoints_from_s)}; it must be less than the duration"
            yield "checkpoints_from", f"{text}, {time_text(duration)}"
    for number, (start, end) in enumerate(scenario.phases):
        if not 0 <= start < end <= duration:
            bounds = f"lie between 0 s and {time_text(duration)}"
            text = (
                f"is {time_text(start)} to {time_text(end)}; a phase must begin before it ends, and {bounds}"
            )
            yield f"phases[{number}]", text


def _about_vertices(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.vertices:
        yield "vertices", "the job has no vertices; give it at least a source"
    for name, count in Counter(vertex.name for vertex in scenario.vertices).items():
        if count > 1:
            yield vertex_key(name), f"{count} vertices have this name; give each vertex a name of its own"
    names = {vertex.name for vertex in scenario.vertices}
    astray = any(edge.target not in names for edge in scenario.edges)
    for vertex in scenario.vertices:
        problems = _about_vertex(vertex, bool(scenario.inputs(vertex)), astray)
        yield from _in_table(vertex_key(vertex.name), problems)


def _about_vertex(vertex: Vertex, has_input: bool, astray: bool) -> Iterator[Problem]:
    if not vertex.name:
        yield "name", "is empty; give the vertex a name"
    least = FROM_SOURCE if isinstance(vertex.source, PathSpec) else 1
    if not least <= vertex.parallelism <= MAX_PARALLELISM:
        yield "parallelism", f"is {vertex.parallelism}; it must be from 1 to {MAX_PARALLELISM}"
    if vertex.source is None and not has_input and not astray:  # a misspelt edge may be meant for it
        text = "is missing, and no edge leads to this vertex; give the vertex a source, or add an edge to it"
        yield "source", text
    if vertex.source is not None:
        if has_input:
            yield "source", "is given, but an edge leads to this vertex, too; remove the source or the edge"
        if vertex.service or vertex.operator is not None:
            yield "service", "a source cannot have a cost per record or a function; set its rate instead"
        yield from _in_table("source", _about_source(vertex.source))
    yield from _about_service(vertex)
    yield from _about_course(vertex)
    yield from _about_output(vertex)


def _about_source(source: GeneratorSpec | PathSpec | SourceObject) -> Iterator[Problem]:
    yield from _about_rates(source.rates)
    if not source.rates:
        yield "rate", "is empty; remove it, or give one rate for each subtask"
    if isinstance(source, GeneratorSpec):
        yield from _about_generator(source)
    if isinstance(source, PathSpec) and not source.path:
        yield "path", "is empty; name a file or a folder"


def _about_service(vertex: Vertex) -> Iterator[Problem]:
    yield from _about_steps(vertex.service)
    if not vertex.service_skew or any(not 0 <= factor < math.inf for factor in vertex.service_skew):
        yield "service_skew", f"is {list(vertex.service_skew)}; give factors of 0 or more"
    if not 0 <= vertex.service_spread < LARGEST_SPREAD:
        bounds = f"from 0 to below {LARGEST_SPREAD:g}"
        yield "service_spread", f"is {vertex.service_spread:g}; it must be a share of the cost, {bounds}"
    if not vertex.behind_s or any(not 0 <= seconds < math.inf for seconds in vertex.behind_s):
        yield "behind", f"is {', '.join(map(time_text, vertex.behind_s)) or 'empty'}; give 0 s or more"
    if vertex.source is not None and any(vertex.behind_s):
        yield "behind", "is given for a source, which reads no input; give it to the next vertex"
    yield from _known("service_mode", vertex.service_mode, SERVICE_MODES)


def _about_course(vertex: Vertex) -> Iterator[Problem]:
    course, source = vertex.course, vertex.source
    if not course:
        return
    if not all(0 < seconds < math.inf and 0 <= factor < math.inf for seconds, factor in course):
        yield "course", "has a time that is not above 0 s, or a factor below 0"
    elif not any(factor for _, factor in course):
        yield "course", "has no factor above 0; give at least one"
    if source is None:
        return
    if not isinstance(source, GeneratorSpec):
        yield "course", "is given for a source that generates no records; remove it"
    elif 0 in source.rates:
        yield "course", f"needs a rate, but {_UNPACED}"
    elif source.burst_s is not None or source.wave_s is not None:
        yield "course", "is given together with a burst or a wave of the source; remove one of the two"
    elif source.catch_up_s != CATCH_UP_S:
        yield "course", "is given together with catch_up of the source, which needs an even rate; remove one"
    elif abs((mean := mean_factor(course)) - 1) > _MEAN_DIFFERS:
        text = f"has a mean factor of {mean:.3g}; it must be 1, since the rate of a source is its mean"
        yield "course", f"{text}; multiply the rate by {mean:.3g}, and divide the factors by it"


def _about_machines(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.machines or any(vertex.task_manager == () for vertex in scenario.vertices):
        return
    known, placed = scenario.task_managers, dict[str, int]()
    for number, machine in enumerate(scenario.machines):
        if not 0 < machine.cores < math.inf:
            yield f"machines.{number}.cores", f"is {machine.cores:g}; it must be more than 0"
        key = f"machines.{number}.task_managers"
        if not machine.task_managers:
            yield key, "is empty; name the task managers that share the cores"
        for name in machine.task_managers:
            yield from _exists(key, "task manager", name, known)
            if name in known and placed.setdefault(name, number) != number:
                where = f"machine {placed[name]}"
                yield key, f"{name} is already on {where}; put each task manager on one machine only"
    shared = {name for machine in scenario.machines for name in machine.task_managers}
    burning = {name for vertex in scenario.vertices if vertex.burns for name in vertex.managers}
    if not shared & burning:
        text = "have no effect, since no vertex on them uses their cores; give a vertex on them service_mode"
        yield "machines", f'{text} "burn", or remove the machines'


def _about_edges(scenario: Scenario) -> Iterator[Problem]:
    names = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    for edge in scenario.edges:
        yield from _exists(edge_key(edge, "from"), "vertex", edge.source, names)
        yield from _exists(edge_key(edge, "to"), "vertex", edge.target, names)
        yield from _known(edge_key(edge, "ship"), edge.ship, SHIPS)
        producers, consumers = names.get(edge.source, 0), names.get(edge.target, 0)
        if edge.strategy is ShipStrategy.FORWARD and producers != consumers and producers and consumers:
            text = f"forward needs the same parallelism on both sides, not {producers} and {consumers}"
            yield edge_key(edge, "ship"), f"{text}; make them equal, or use rescale or rebalance"
        yield from _in_table(edge_key(edge), _about_edge(scenario, edge, producers, consumers))


def _about_names(scenario: Scenario) -> Iterator[Problem]:
    """Yield a mistake for each Python object of which only the name is given."""
    for vertex in scenario.vertices:
        if isinstance(vertex.source, SourceObject) and isinstance(vertex.source.source, NamedObject):
            yield vertex_key(vertex.name, "source.object"), _NAME_ONLY
        if isinstance(vertex.operator, NamedObject):
            yield vertex_key(vertex.name, "operator"), _NAME_ONLY
    for edge in scenario.edges:
        if isinstance(edge.key_hash, NamedObject):
            yield edge_key(edge, "key_hash"), _NAME_ONLY


def _about_cycles(scenario: Scenario) -> Iterator[Problem]:
    names = {vertex.name for vertex in scenario.vertices}
    if len(names) < len(scenario.vertices) or any(edge.source not in names for edge in scenario.edges):
        return
    stuck = names - {vertex.name for vertex in scenario.topological_order()}
    while leaves := stuck - {edge.source for edge in scenario.edges if edge.target in stuck}:
        stuck -= leaves
    if stuck:
        through = ", ".join(vertex.name for vertex in scenario.vertices if vertex.name in stuck)
        cycle = f"the edges form a cycle through {through}"
        yield "edges", f"{cycle}; remove one, since records must flow in one direction"


def _about_keys(scenario: Scenario) -> Iterator[Problem]:
    """Yield mistakes about keys: a hash exchange needs records that all have a key of the same kind."""
    for edge in scenario.edges:
        if edge.strategy.by_key and edge.key_hash is None and not edge.shares:
            yield from ((edge_key(edge, "ship"), message) for message in _about_key(scenario, edge))
    for edge in scenario.edges:
        vertex = scenario.vertex(edge.target)
        if scenario.is_broadcast_side(edge):
            continue
        if vertex.parallelism > 1 and not _deals_out_by_key(scenario, edge) and scenario.key_of(vertex):
            means = f"{edge.ship} with shares" if edge.shares else edge.ship
            text = f"{vertex.name} has keyed state, but {means} sends records of one key to several subtasks"
            yield edge_key(edge, "ship"), f"{text}; use hash" + " without shares" * bool(edge.shares)


def _deals_out_by_key(scenario: Scenario, edge: Edge) -> bool:
    """Whether an edge sends all records with the same key to one subtask.

    `forward` keeps the distribution of the edge before it. An edge's own `key_hash` is assumed to depend on
    the key only, which cannot be checked here.
    """
    seen: set[str] = set()
    left = [edge]
    while left:
        each = left.pop()
        if each.strategy is not ShipStrategy.FORWARD:
            if not each.strategy.by_key or each.shares:
                return False
        elif each.source not in seen:
            seen.add(each.source)
            before = scenario.inputs(scenario.vertex(each.source))
            if not before:
                return False
            left += before
    return True


def _about_key(scenario: Scenario, edge: Edge) -> Iterator[str]:
    if scenario.key_of(scenario.vertex(edge.target)) is not None:
        return  # that operator declares the key
    before = list(scenario.vertices_before(edge.source))
    sources = [vertex.source for vertex in before if vertex.source is not None]
    for source in sources:
        spec = source.spec if isinstance(source, SourceObject) else source
        if isinstance(spec, PathSpec) and not spec.key:
            yield f"hash needs a key, but the source of {spec.path!r} has none; give that source a key"
    if len({type(source) for source in sources}) > 1:
        yield (
            "hash needs keys of one kind, but the records come from several kinds of sources; use one edge "
            "for each kind"
        )
    if any(vertex.operator is not None for vertex in before):
        yield "hash needs a key, but these records come from a user's function; give the edge a key_hash"


def _about_output(vertex: Vertex) -> Iterator[Problem]:
    placed = vertex.task_manager
    if placed is not None and not (placed and all(placed)):
        yield "task_manager", "is empty; give the name of one or several task managers, or remove it"
    for field in _OUTPUT_FIELDS:
        if getattr(vertex, field) == keys_of(Vertex)[field].default:
            continue
        if vertex.source is not None:
            text = "has no effect on a source, whose own settings say what it emits; remove it"
            yield without_unit(field), text
        elif vertex.operator is not None:
            text = "is given together with a user's function, which decides what is emitted"
            yield without_unit(field), f"{text}; remove one of the two"
    yield from _about_selectivity(vertex.selectivity)
    yield from _known("emission", vertex.emission, EMISSIONS)
    if vertex.record_bytes is not None:
        yield from _about_record_bytes(vertex.record_bytes)
    yield from _positive("emit_every", vertex.emit_every_s)
    if not 0 <= vertex.emit_cost_s < math.inf:
        yield "emit_cost", f"is {time_text(vertex.emit_cost_s)}; it must be 0 s or more"
    elif vertex.emit_cost_s and vertex.emit_every_s is None:
        yield "emit_cost", "has no effect without emit_every; give emit_every, or a service for records read"


def _about_record_bytes(record_bytes: int) -> Iterator[Problem]:
    if not KEY_BYTES <= record_bytes <= DEFAULT_MAX_RECORD_BYTES:
        text = f"is {record_bytes}; it must be {KEY_BYTES} (the key) to {DEFAULT_MAX_RECORD_BYTES}"
        yield "record_bytes", text


def _about_selectivity(selectivity: float) -> Iterator[Problem]:
    if not 0 <= selectivity < math.inf:
        yield "selectivity", f"is {selectivity:g}; it must be 0 (the vertex emits nothing) or more"


def _about_generator(source: GeneratorSpec) -> Iterator[Problem]:
    yield from _about_record_bytes(source.record_bytes)
    if not 0 <= source.record_spread <= MOST_RECORD_SPREAD:
        yield "record_spread", f"is {source.record_spread:g}; it must be from 0 to {MOST_RECORD_SPREAD:g}"
    if source.keys is not None:
        yield from _about_generated_keys(source.keys)
    if source.burst_s is not None and source.wave_s is not None:
        text = "is given together with burst, but the records can come only in waves or in bursts"
        yield "wave", f"{text}; remove one of the two"
    for key, period in (("burst", source.burst_s), ("wave", source.wave_s)):
        yield from _positive(key, period)
        if period is not None and 0 in source.rates:
            yield key, f"needs a rate, but {_UNPACED}"
    if source.batch < 1:
        yield "batch", f"is {source.batch}; it must be 1 record or more"
    yield from _not_negative("catch_up", source.catch_up_s)
    if source.catch_up_s != CATCH_UP_S and (source.burst_s or source.wave_s or not any(source.rates)):
        text = "has an effect only at an even rate; give the source a rate without burst and wave"
        yield "catch_up", f"{text}, or remove this"
    yield from _not_negative("cost", source.cost_s)


def _about_generated_keys(keys: Keys) -> Iterator[Problem]:
    if not 1 <= keys.number <= MAX_KEYS:
        yield "keys.number", f"is {keys.number}; it must be from 1 to {MAX_KEYS}; or remove keys"
    if not 0 <= keys.zipf < math.inf:
        yield "keys.zipf", f"is {keys.zipf:g}; it must be 0 (all keys equally frequent) or more"
    shares, total = keys.most_frequent, sum(keys.most_frequent)
    key = "keys.most_frequent"
    if len(shares) > max(1, keys.number):
        yield key, f"has {len(shares)} shares for {keys.number} keys; give at most one share for each key"
    elif any(not 0 <= share <= 1 for share in shares):
        yield key, f"is {list(shares)}; each share must be from 0 to 1"
    elif total > 1 + _ROUNDING:
        yield key, f"has shares that add up to {total:g}; they must add up to at most 1"
    elif shares and total == 0 and len(shares) == keys.number:
        yield key, "gives every key a share of 0; give at least one key a share above 0"


def _about_edge(scenario: Scenario, edge: Edge, producers: int, consumers: int) -> Iterator[Problem]:
    """Yield the mistakes of an edge between so many subtasks; 0: not known yet."""
    if edge.shares:
        yield from _about_shares(edge, consumers)
    yield from _about_fraction(scenario, edge)
    if edge.input < 0:
        yield "input", f"is {edge.input}; inputs are counted from 0"
    if edge.selectivity is not None:
        yield from _about_selectivity(edge.selectivity)
    yield from _about_steps(edge.service or ())
    yield from _about_buffers(edge, producers, consumers)
    targets = [vertex for vertex in scenario.vertices if vertex.name == edge.target]
    for key, value in (("selectivity", edge.selectivity), ("service", edge.service)):
        if value is not None and any(target.operator is not None for target in targets):
            text = f"has no effect, since {edge.target} runs a user's function"
            yield key, f"{text}; remove it, or give it to the vertex"


def _about_buffers(edge: Edge, producers: int, consumers: int) -> Iterator[Problem]:
    buffers = edge.buffers
    for name, least in _LEAST_BUFFERS.items():
        count = getattr(buffers, name)
        if count is not None and count < least:
            yield f"buffers.{name}", f"is {count}; it must be {least} or more"
            return
    if buffers.partition is None or not producers or not consumers:
        return
    subpartitions = max(channel_counts(edge.ship, consumers, producers))
    if buffers.partition < subpartitions + 1:
        needs = f"needs one buffer more than its {subpartitions} subpartitions"
        yield "buffers.partition", f"is {buffers.partition}, but a producer {needs}"


def _about_shares(edge: Edge, consumers: int) -> Iterator[Problem]:
    shares = edge.shares
    if not edge.strategy.by_key:
        yield "shares", f"is given with {edge.ship}; shares are possible with hash only"
    if consumers and len(shares) != consumers:
        text = f"has {len(shares)} shares for the {consumers} subtasks of {edge.target}"
        yield "shares", f"{text}; give one share for each subtask"
    if any(not 0 <= share < math.inf for share in shares) or sum(shares) <= 0:
        yield "shares", f"is {list(shares)}; each share must be 0 or more, and at least one above 0"


def _about_fraction(scenario: Scenario, edge: Edge) -> Iterator[Problem]:
    if not 0 < edge.fraction <= 1:
        yield "fraction", f"is {edge.fraction:g}; it must be above 0 and at most 1 (all records)"
    elif edge.fraction < 1:
        if edge.strategy.copies:
            yield "fraction", "has no effect with broadcast, which sends every record; remove it"
        if sum(each.source == edge.source for each in scenario.edges) == 1:
            text = f"is given for the only edge of {edge.source}; set the selectivity of that vertex instead"
            yield "fraction", text


def _about_steps(service: Sequence[Step]) -> Iterator[Problem]:
    times = [at for at, _ in service]
    if any(not 0 <= cost < math.inf for _, cost in service):
        yield "service", "has a cost below 0; each cost must be 0 or more"
    if times and (times[0] != 0 or any(later <= at for at, later in pairwise(times))):
        shown = ", ".join(time_text(at) for at in times)
        text = f"has steps at {shown}; the first must be at 0 s, and each later than the one before"
        yield "service", text


def event_time_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield mistakes in the event time of a job whose vertices and edges are valid."""
    for vertex in scenario.vertices:
        yield from _in_table(vertex_key(vertex.name), _about_event_time(scenario, vertex))
    if scenario.config.auto_watermark_interval_s <= 0 and sources_with_watermarks(scenario):
        names = [vertex.name for vertex in scenario.vertices if vertex.emits_by_event_time]
        text = f"is 0, so no watermarks are sent, but {names[0]} emits by event time; set it to 200 ms"
        yield option_key("auto_watermark_interval_s"), text


def _about_event_time(scenario: Scenario, vertex: Vertex) -> Iterator[Problem]:
    yield from _known("emit_by", vertex.emit_by, EMITS_BY)
    if vertex.emits_by_event_time and vertex.emit_every_s is None:
        yield "emit_by", "has no effect without emit_every; give emit_every, the size of the windows"
    elif vertex.emits_by_event_time:
        if vertex.emit_every_s is not None and 0 < vertex.emit_every_s < _LEAST_WINDOW_S:
            yield "emit_every", f"is {time_text(vertex.emit_every_s)}; by event time it must be 1 ms or more"
        for source in sources_of(scenario, vertex):
            if source.source is not None and source.source.out_of_orderness_s is None:
                text = f"is event_time, but the source {source.name} of these records sends no watermarks"
                yield "emit_by", f"{text}; give that source an out_of_orderness, such as 0 s"
    yield from _about_keys_of_windows(vertex)
    if vertex.source is not None and vertex.source.out_of_orderness_s is not None:
        disorder_s = vertex.source.out_of_orderness_s
        key = "source.out_of_orderness"
        if wrong := list(_not_negative(key, disorder_s)):
            yield from wrong
        elif vertex.name not in sources_with_watermarks(scenario):
            text = "has no effect: no vertex after this source emits by event time"
            yield key, f'{text}; remove it, or set emit_by = "event_time" at a vertex after this source'


def _about_keys_of_windows(vertex: Vertex) -> Iterator[Problem]:
    if vertex.emit_keys is None:
        return
    if vertex.emit_keys < 1:
        yield "emit_keys", f"is {vertex.emit_keys}; it must be 1 or more"
    elif not vertex.emits_by_event_time:
        yield "emit_keys", 'has no effect without emit_by = "event_time"; give both, or remove it'
    elif vertex.selectivity != 1:
        text = f"is {vertex.selectivity:g}, but a window with emit_keys emits one record for each key"
        yield "selectivity", f"{text}; remove one of the two"


MOST_RECORDS_PER_S = 1e9
"""Maximum rate of a subtask of a source."""

_NO_CHECKPOINTS = "the job takes no checkpoints; give execution.checkpointing.interval or checkpoints_at"


def fault_key(number: int, field: str = "") -> str:
    """Return the key of a fault or of one of its fields; faults are numbered from 0."""
    return f"faults.{number}.{field}".removesuffix(".")


def fault_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield mistakes in faults, and in the times of checkpoints and savepoints that users request."""
    for number, at in enumerate(scenario.manual_checkpoints_s):
        yield from _before_end(f"checkpoints_at[{number}]", at, scenario)
    for number, savepoint in enumerate(scenario.savepoints):
        yield from _before_end(f"savepoints_at[{number}]", savepoint.at_s, scenario)
    for number, fault in enumerate(scenario.faults):
        yield from _in_table(fault_key(number), _about_fault(scenario, fault))


def _about_fault(scenario: Scenario, fault: Fault) -> Iterator[Problem]:
    yield from _about_moment(scenario, fault)
    yield from _positive("for", getattr(fault, "for_s", None))
    yield from _positive("delay", getattr(fault, "delay_s", None))
    if isinstance(fault, KillSubtask):
        yield from _about_subtask(scenario, fault.subtask, "vertex", "subtask")
    elif isinstance(fault, KillTaskManager):
        yield from _exists("task_manager", "task manager", fault.task_manager, scenario.task_managers)
    elif isinstance(fault, CutLink):
        yield from _about_link(scenario, fault)
    elif isinstance(fault, DelayMessages | DropMessages):
        yield from _about_messages(scenario, fault)
    if fault.needs_checkpoints and not scenario.takes_checkpoints:
        yield "kind", f"is {fault.kind}, but {_NO_CHECKPOINTS}"


def _about_moment(scenario: Scenario, fault: Fault) -> Iterator[Problem]:
    when = fault.when
    if isinstance(when, AtTime):
        yield from _before_end("at", when.time_s, scenario)
        return
    if when.number < 1:
        yield "number", f"is {when.number}; counting begins with 1"
    if isinstance(when, OnAcknowledgement):
        if not (isinstance(fault, KillSubtask) and fault.subtask == when.subtask):  # else checked as target
            yield from _about_subtask(scenario, when.subtask, "from", "from_subtask")
    else:
        yield from _about_channel(scenario, when)
    counts_checkpoints = isinstance(when, OnAcknowledgement) or when.item is ChannelItem.BARRIER
    if counts_checkpoints and not scenario.takes_checkpoints:
        what = "acknowledgement" if isinstance(when, OnAcknowledgement) else when.item
        yield "on", f"is {what}, but {_NO_CHECKPOINTS}"


def _about_channel(scenario: Scenario, when: OnChannel) -> Iterator[Problem]:
    source = list(_about_subtask(scenario, when.source, "from", "from_subtask"))
    target = list(_about_subtask(scenario, when.target, "to", "to_subtask"))
    yield from source + target
    if source or target:
        return
    edges = [
        edge
        for edge in scenario.edges
        if (edge.source, edge.target) == (when.source.vertex, when.target.vertex)
    ]
    if not edges:
        if reached := [edge.target for edge in scenario.edges if edge.source == when.source.vertex]:
            hint = did_you_mean(when.target.vertex, reached)
            yield "to", f"no edge leads to it from {when.source.vertex}; {hint}"
        else:
            yield "to", f"no edge leads out of {when.source.vertex}; give a vertex that sends records"
    elif not any(_connects(scenario, edge, when) for edge in edges):
        text = f"with {edges[0].ship}, no records go from {when.source} to {when.target}"
        yield "to_subtask", f"{text}; give a pair of subtasks that are connected"


def _connects(scenario: Scenario, edge: Edge, when: OnChannel) -> bool:
    producers = scenario.vertex(edge.source).parallelism
    consumers = scenario.vertex(edge.target).parallelism
    if edge.ship not in SHIPS or not producers or not consumers:
        return True  # a mistake of the edge itself, or a path that is not open yet
    return when.target.subtask in scenario.consumers_reached(edge)[when.source.subtask]


def _about_subtask(
    scenario: Scenario, name: SubtaskName, vertex_field: str, subtask_field: str
) -> Iterator[Problem]:
    parallelism = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    yield from _exists(vertex_field, "vertex", name.vertex, parallelism)
    count = parallelism.get(name.vertex, 0)  # 0 also until the path of a source has been opened
    if name.vertex in parallelism and (name.subtask < 0 or 0 < count <= name.subtask):
        there = f"{name.vertex} has the subtasks 0 to {count - 1}" if count else "subtasks are counted from 0"
        yield subtask_field, f"is {name.subtask}; {there}"


def _about_link(scenario: Scenario, fault: CutLink) -> Iterator[Problem]:
    managers = scenario.task_managers
    yield from _exists("from_task_manager", "task manager", fault.from_task_manager, managers)
    yield from _exists("to_task_manager", "task manager", fault.to_task_manager, managers)
    if {*fault.ends} <= {*managers} and fault.ends not in set(_links(scenario)):
        links = ", ".join(f"{source} to {target}" for source, target in dict.fromkeys(_links(scenario)))
        text = f"no records are sent to it from {fault.from_task_manager}"
        yield "to_task_manager", f"{text}; links with records: {links or 'none'}"


def _links(scenario: Scenario) -> Iterable[tuple[str, str]]:
    names = {vertex.name for vertex in scenario.vertices}
    for edge in scenario.edges:
        if {edge.source, edge.target} <= names and edge.ship in SHIPS:
            yield from (ends for ends in scenario.channel_ends(edge) if ends[0] != ends[1])


def _about_messages(scenario: Scenario, fault: DelayMessages | DropMessages) -> Iterator[Problem]:
    yield from _known("messages", fault.messages, MESSAGES)
    if fault.vertex is not None:
        yield from _about_subtask(
            scenario, SubtaskName(fault.vertex, fault.subtask or 0), "vertex", "subtask"
        )
    elif fault.subtask is not None:
        yield "subtask", "is given without a vertex; give the vertex, too"


def _about_rates(rates: Sequence[float]) -> Iterator[Problem]:
    if any(not 0 <= rate <= MOST_RECORDS_PER_S for rate in rates):
        most = f"{MOST_RECORDS_PER_S:g} records per second"
        yield "rate", f"is {list(rates)}; a rate must be from 0 (as fast as possible) to {most}"


def change_problems(scenario: Scenario, *, to_run: bool = True) -> Iterator[Problem]:
    """Yield mistakes in the changes of a scenario.

    A changed debloating policy is checked only with `to_run`, because the check imports it.
    """
    current = scenario
    for number, change in sorted(enumerate(scenario.changes), key=lambda each: each[1].at_s):
        yield from _in_table(f"changes.{number}", _about_change(scenario, change))
        before, current = current, changed(current, change)
        problems = set(option_problems(current.config)) - set(option_problems(before.config))
        if to_run and change.concerns(Subsystem.DEBLOATING) and not problems:
            problems = set(policy_problems(current.config))
        yield from _in_table(f"changes.{number}", sorted(problems))


def _about_change(scenario: Scenario, change: ScheduledChange) -> Iterator[Problem]:
    if not 0 <= change.at_s < scenario.duration_s:
        end = time_text(scenario.duration_s)
        yield "at", f"is {time_text(change.at_s)}; it must be from 0 s to before the end of the run, {end}"
    of_vertex = change.service_s is not None or bool(change.service_skew or change.rates)
    if not (change.settings or of_vertex):
        yield "", "contains no change; give flink, policy, or a vertex with service, service_skew or rate"
    yield from _about_changed_settings(scenario, change)
    if change.vertex is None and of_vertex:
        yield "vertex", "is missing; give the vertex whose service or rate changes"
    elif change.vertex is not None:
        yield from _about_changed_vertex(scenario, change, change.vertex)


def _about_changed_settings(scenario: Scenario, change: ScheduledChange) -> Iterator[Problem]:
    for field, _ in change.settings:
        if field not in CHANGEABLE:
            name = OPTIONS[field].name
            options = ", ".join(OPTIONS[each].name for each in CHANGEABLE if each in OPTIONS)
            yield f"flink.{name}", f"cannot change while a job runs; only these options can: {options}"
    if change.concerns(Subsystem.CHECKPOINTS) and scenario.config.checkpoint_interval_s is None:
        yield "flink", "the job takes no checkpoints; give it execution.checkpointing.interval from the start"
    overtakes = ("unaligned_enabled", True) in change.settings
    if overtakes and scenario.config.checkpoint_mode is not CheckpointMode.EXACTLY_ONCE:
        text = "unaligned checkpoints are possible only in mode EXACTLY_ONCE, which this job does not use"
        yield "flink", text


def _about_changed_vertex(scenario: Scenario, change: ScheduledChange, name: str) -> Iterator[Problem]:
    if wrong := list(_known("vertex", name, [vertex.name for vertex in scenario.vertices])):
        yield from wrong
        return
    vertex = scenario.vertex(name)
    if vertex.source is None and change.rates:
        yield "rate", f"{name} is not a source; change its service instead"
    if vertex.source is not None and (change.service_s is not None or change.service_skew):
        yield "service", f"{name} is a source; change its rate instead"
    yield from _not_negative("service", change.service_s)
    if not all(0 <= factor < math.inf for factor in change.service_skew):
        yield "service_skew", f"is {list(change.service_skew)}; each must be 0 or more"
    yield from _about_rates(change.rates)
