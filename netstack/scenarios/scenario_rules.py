"""What makes a scenario sensible: each rule is a pure function that names the mistakes it finds.

A mistake is a pair: where it is, in the words of a scenario file; and what is wrong and would be right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from .change_rules import change_problems
from .config import OPTIONS, PRESETS
from .config_rules import (
    Problem,
    cost_problems,
    did_you_mean,
    link_problems,
    option_key,
    option_problems,
    policy_problems,
    restart_notices,
    setting_notices,
    time_text,
)
from .event_time import event_time_problems
from .fault_rules import fault_problems
from .flow_rules import (
    edge_problems,
    generator_problems,
    output_problems,
    rate_problems,
    service_problems,
)
from .scenario import (
    FROM_SOURCE,
    MAX_PARALLELISM,
    SERVICE_MODES,
    SHIPS,
    Edge,
    GeneratorSpec,
    PathSpec,
    Scenario,
    ScenarioError,
    SourceObject,
    Vertex,
)
from .user_code import NamedObject

LARGEST_SPREAD = 0.5
"""A cost that is known no better than this is not known."""

_NAME_ONLY = "is a Python object, which a file cannot hold; build the scenario in Python"


def check_scenario(scenario: Scenario) -> None:
    """Refuse a scenario that makes no sense.

    Raises:
        ScenarioError: with a line for each mistake.
    """
    problems = [f"{key}: {message}" for key, message in scenario_problems(scenario)]
    if problems:
        raise ScenarioError(problems)


def scenario_problems(scenario: Scenario, *, to_run: bool = True) -> list[Problem]:
    """Return the mistakes of a scenario, in the order of a scenario file.

    Whether it can be run is looked at with `to_run` only, since that imports the policy that it names.
    """
    rules: tuple[Callable[[Scenario], Iterable[Problem]], ...] = (
        _about_time,
        lambda scenario: option_problems(scenario.config),
        lambda scenario: policy_problems(scenario.config) if to_run else (),
        lambda scenario: cost_problems(scenario.costs),
        lambda scenario: link_problems(scenario.link),
        _about_vertices,
        _about_edges,
        _about_machines,
        lambda scenario: _about_names(scenario) if to_run else (),
        _about_cycles,
        _about_keys,
        _about_event_time,
        _about_faults,
        lambda scenario: change_problems(scenario, to_run=to_run),
    )
    return [problem for rule in rules for problem in rule(scenario)]


def option_notices(scenario: Scenario) -> list[Problem]:
    """Return what a user should know of options that were given, though they are no mistakes."""
    notices = []
    for field in sorted(scenario.config.given & OPTIONS.keys()):
        option = OPTIONS[field]
        if option.only_1x and not scenario.preset.startswith("flink-1"):
            notices.append((option_key(field), "takes effect here, but a real Flink 2 ignores it"))
        elif option.inert:
            notices.append((option_key(field), "is accepted, but changes nothing in the emulator"))
    restarts = restart_notices(scenario.config, scenario.restart_strategy)
    return [*notices, *setting_notices(scenario.config), *restarts]


def vertex_key(name: str, field: str = "") -> str:
    """Return where a vertex, or a field of one, is."""
    return f"vertices.{name}.{field}".removesuffix(".")


def edge_key(edge: Edge, field: str = "") -> str:
    """Return where an edge, or a field of one, is."""
    return f"edges.{edge.source}->{edge.target}.{field}".removesuffix(".")


def _about_time(scenario: Scenario) -> Iterator[Problem]:
    duration = scenario.duration_s
    if not scenario.name:
        yield "name", "is empty; give the scenario a name"
    if not 0 < duration < math.inf:
        yield "duration", f"is {time_text(duration)}; it must be more than 0 s"
        return
    if not 0 <= scenario.warmup_s < duration:
        text = f"is {time_text(scenario.warmup_s)}; it must be less than the duration, {time_text(duration)}"
        yield "warmup", text
    if scenario.seed < 0:
        yield "seed", f"is {scenario.seed}; it must be 0 or more"
    if scenario.preset not in PRESETS:
        yield "preset", f"{scenario.preset!r} is unknown; {did_you_mean(scenario.preset, PRESETS)}"
    for number, (start, end) in enumerate(scenario.phases):
        if not 0 <= start < end <= duration:
            window = f"{time_text(start)} to {time_text(end)}"
            yield (
                f"phases[{number}]",
                f"is {window}; it must lie within 0 s and {time_text(duration)}, forwards",
            )


def _about_vertices(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.vertices:
        yield "vertices", "there are none; a job has at least a source"
    for name, count in Counter(vertex.name for vertex in scenario.vertices).items():
        if count > 1:
            yield vertex_key(name), f"there are {count} vertices of this name; names must differ"
    names = {vertex.name for vertex in scenario.vertices}
    astray = any(edge.target not in names for edge in scenario.edges)
    for vertex in scenario.vertices:
        for field, message in _about_vertex(vertex, bool(scenario.inputs(vertex)), astray):
            yield vertex_key(vertex.name, field), message


def _about_vertex(vertex: Vertex, has_input: bool, astray: bool) -> Iterator[Problem]:
    if not vertex.name:
        yield "name", "is empty; give the vertex a name"
    least = FROM_SOURCE if isinstance(vertex.source, PathSpec) else 1
    if not least <= vertex.parallelism <= MAX_PARALLELISM:
        yield "parallelism", f"is {vertex.parallelism}; it must be from 1 to {MAX_PARALLELISM}"
    if vertex.source is None and not has_input and not astray:  # else an edge may be meant for it
        yield "source", "is missing, and no edge leads to this vertex; give it a source or an edge"
    if vertex.source is not None:
        if has_input:
            yield "source", "is given, but an edge leads to this vertex; drop one of the two"
        if vertex.service or vertex.operator is not None:
            yield "service", "a source does no work on records; pace it with its rate"
        yield from _about_source(vertex.source)
    yield from _about_service(vertex)
    yield from output_problems(vertex)


def _about_source(source: GeneratorSpec | PathSpec | SourceObject) -> Iterator[Problem]:
    for message in rate_problems(source.rates):
        yield "source.rate", message
    if not source.rates:
        yield "source.rate", "is empty; leave it out, or give one rate for each subtask"
    if isinstance(source, GeneratorSpec):
        for key, message in generator_problems(source):
            yield f"source.{key}", message
    if isinstance(source, PathSpec) and not source.path:
        yield "source.path", "is empty; name a file or a folder"


def _about_service(vertex: Vertex) -> Iterator[Problem]:
    for message in service_problems(vertex.service):
        yield "service", message
    if not vertex.service_skew or any(not 0 <= factor < math.inf for factor in vertex.service_skew):
        yield "service_skew", f"is {list(vertex.service_skew)}; give factors of 0 or more"
    if not 0 <= vertex.service_spread < LARGEST_SPREAD:
        text = f"is {vertex.service_spread:g}; it is a share of the cost, from 0 to below {LARGEST_SPREAD:g}"
        yield "service_spread", text
    if not vertex.behind_s or any(not 0 <= seconds < math.inf for seconds in vertex.behind_s):
        yield "behind", f"is {', '.join(map(time_text, vertex.behind_s)) or 'empty'}; give 0 s or more"
    if vertex.source is not None and any(vertex.behind_s):
        yield "behind", "is given on a source, which has nothing to read; give it to the vertex behind it"
    if vertex.service_mode not in SERVICE_MODES:
        text = f"{vertex.service_mode!r} is unknown; {did_you_mean(vertex.service_mode, SERVICE_MODES)}"
        yield "service_mode", text


def _about_machines(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.machines or any(vertex.task_manager == () for vertex in scenario.vertices):
        return
    known, placed = scenario.task_managers, dict[str, int]()
    for number, machine in enumerate(scenario.machines):
        if not 0 < machine.cores < math.inf:
            yield f"machines.{number}.cores", f"is {machine.cores:g}; it must be more than 0"
        if not machine.task_managers:
            yield f"machines.{number}.task_managers", "is empty; name the task managers that share the cores"
        for name in machine.task_managers:
            key = f"machines.{number}.task_managers"
            if name not in known:
                yield key, f"no task manager is named {name!r}; {did_you_mean(name, known)}"
            elif placed.setdefault(name, number) != number:
                yield key, f"{name} is on machine {placed[name]} already; a task manager is on one"
    shared = {name for machine in scenario.machines for name in machine.task_managers}
    burning = {name for vertex in scenario.vertices if vertex.burns for name in vertex.managers}
    if not shared & burning:
        yield "machines", 'share their cores among vertices of service_mode "burn", and there is none on them'


def _about_edges(scenario: Scenario) -> Iterator[Problem]:
    names = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    for edge in scenario.edges:
        for field, name in (("from", edge.source), ("to", edge.target)):
            if name not in names:
                yield edge_key(edge, field), f"no vertex is named {name!r}; {did_you_mean(name, names)}"
        if edge.ship not in SHIPS:
            yield edge_key(edge, "ship"), f"{edge.ship!r} is unknown; {did_you_mean(edge.ship, SHIPS)}"
        producers, consumers = names.get(edge.source, 0), names.get(edge.target, 0)
        if edge.ship == "forward" and producers != consumers and producers and consumers:
            text = f"forward needs the same parallelism at both ends, not {producers} and {consumers}"
            yield edge_key(edge, "ship"), f"{text}; make them equal, or use rescale or rebalance"
        for field, message in edge_problems(scenario, edge):
            yield edge_key(edge, field), message


def _about_names(scenario: Scenario) -> Iterator[Problem]:
    """Where there is the name of a Python object in place of one."""
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
        yield "edges", f"there is a cycle through {through}; records must flow one way, so drop an edge"


def _about_keys(scenario: Scenario) -> Iterator[Problem]:
    """Hash exchanges need a key that every record before them has, in one encoding.

    What a Python object takes for the key its name does not tell.
    """
    if any(True for rule in (_about_edges, _about_names, _about_cycles) for _ in rule(scenario)):
        return
    for edge in scenario.edges:
        if edge.ship == "hash" and edge.key_hash is None and not edge.shares:
            for message in _about_key(scenario, edge):
                yield edge_key(edge, "ship"), message
    for edge in scenario.edges:
        vertex = scenario.vertex(edge.target)
        if scenario.is_broadcast_side(edge):
            continue
        if vertex.parallelism > 1 and not _deals_out_by_key(scenario, edge) and scenario.key_of(vertex):
            means = f"{edge.ship} with shares" if edge.shares else edge.ship
            text = f"{vertex.name} keeps state by key, and {means} brings a key to several of its subtasks"
            yield edge_key(edge, "ship"), f"{text}; use hash" + " without shares" * bool(edge.shares)


def _deals_out_by_key(scenario: Scenario, edge: Edge) -> bool:
    """Whether the records of a key come to one subtask, as far as can be told: `forward` leaves them there.

    That an edge's hash follows from the key is seen when records come.
    """
    seen: set[str] = set()
    left = [edge]
    while left:
        each = left.pop()
        if each.ship != "forward":
            if each.ship != "hash" or each.shares:
                return False
        elif each.source not in seen:
            seen.add(each.source)
            before = scenario.inputs(scenario.vertex(each.source))
            if not before:
                return False
            left += before
    return True


def _about_event_time(scenario: Scenario) -> Iterable[Problem]:
    """What watermarks reach is looked up once vertices and edges are all right."""
    if any(True for rule in (_about_vertices, _about_edges, _about_cycles) for _ in rule(scenario)):
        return ()
    return event_time_problems(scenario)


def _about_faults(scenario: Scenario) -> Iterator[Problem]:
    """What faults name is looked up once vertices and edges are all right."""
    if any(True for rule in (_about_vertices, _about_edges, _about_cycles) for _ in rule(scenario)):
        return iter(())
    return fault_problems(scenario)


def _about_key(scenario: Scenario, edge: Edge) -> Iterator[str]:
    if scenario.key_of(scenario.vertex(edge.target)) is not None:
        return  # it says what the keys are
    before = list(scenario.vertices_before(edge.source))
    sources = [vertex.source for vertex in before if vertex.source is not None]
    for source in sources:
        spec = source.spec if isinstance(source, SourceObject) else source
        if isinstance(spec, PathSpec) and not spec.key:
            yield f"hash needs a key, and the source of {spec.path!r} names none; give that source a key"
    if len({type(source) for source in sources}) > 1:
        yield "hash needs one kind of key, and sources of several kinds lead here; give each its own edge"
    if any(vertex.operator is not None for vertex in before):
        yield "hash needs a key, and a user's function made the records; give the edge its key_hash"
