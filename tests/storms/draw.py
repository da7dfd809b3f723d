"""Draws the case of a storm from its seed: a pure function.

First the job (`storm_jobs`), then settings (`storm_settings`) and faults (`storm_faults`). Records are cut
down until a rough estimate says that the job, left alone, is over within `LONGEST_S`. So it is known which
times are generous, and a job that does not end in time has a reason that can be told.
"""

from __future__ import annotations

import random
from dataclasses import replace

from netstack import DEFAULT_PRESET, CheckpointMode, NetworkConfig

from .apart import has_regions, paths_meet, set_apart, with_failover
from .case import SUMS, StormCase, StormVertex, Work
from .going_on import draw_going_on
from .storm_emissions import at_once, with_emissions, with_watermarks
from .storm_estimates import estimate_s, idle_checkpoint_s
from .storm_faults import draw_faults, draw_neighbours, draw_read_trouble, lasts_for_good
from .storm_jobs import draw_job, draw_link
from .storm_settings import draw_config, draw_costs, with_scarce_memory, with_state_stored
from .storm_shares import with_shares

LONGEST_S = 5.0
"""How long a job may take, by a rough estimate, if nothing goes wrong; in emulated seconds."""

DURATION_S = 25 * LONGEST_S
"""Duration of a job that has to end by itself, some restarts included."""

ON_DISK = 0.04
"""Share of the cases whose checkpoints are files of a directory."""

LONGEST_KEY = 9000
"""Bytes of a record that is the key of an entry of a map."""

HOPELESS_S = 2 * LONGEST_S
"""Duration of a job that something may keep from ending for good."""


def draw_case(seed: int) -> StormCase:
    """Return the case of a seed, which is 0 or more."""
    chance = random.Random(seed)
    apart = random.Random(f"{seed} apart")
    vertices, edges = set_apart(apart, draw_job(chance), lambda: draw_job(apart))
    emits = random.Random(f"{seed} emits")
    vertices = with_emissions(emits, vertices)
    vertices, edges, fractions = with_shares(random.Random(f"{seed} shares"), vertices, edges)
    config, patient = draw_config(chance)
    config = with_watermarks(emits, with_failover(apart, config), vertices)
    case = StormCase(
        seed=seed,
        vertices=vertices,
        edges=edges,
        fractions=fractions,
        config=config,
        link=draw_link(chance),
        duration_s=DURATION_S,
        manual_checkpoints_s=_manual(chance),
        patient=patient,
    )
    case = with_state_stored(chance, case)
    case = _settled(chance, _bounded(_storable(case)))
    longest_s = estimate_s(case)
    case = replace(
        case,
        faults=draw_faults(chance, case, longest_s),
        trouble=draw_read_trouble(chance) if case.takes_checkpoints else (),
        preset=chance.choice((DEFAULT_PRESET, "flink-1.20", "flink-2.2")),
        on_disk=chance.random() < ON_DISK,
        neighbours=() if has_regions(case) else draw_neighbours(chance, case, longest_s),
        going_on=draw_going_on(random.Random(f"{seed} goes on"), case),
    )
    config = _adaptive(random.Random(f"{seed} adaptive"), case.config)
    case = replace(case, config=_with_recovery(random.Random(f"{seed} recovery"), config))
    return replace(case, duration_s=HOPELESS_S) if lasts_for_good(case.faults) else case


def _adaptive(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, with adaptive partition selection in some."""
    enabled, most = chance.random() < 0.3, max(2, chance.randint(1, 5))
    return replace(config, adaptive_partitioner_enabled=enabled, adaptive_partitioner_max_traverse_size=most)


def _with_recovery(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, with in-flight data restored at the consumers in some, and checkpoints meanwhile."""
    drawn = chance.random()
    return replace(config, recover_output_on_downstream=drawn < 0.4, checkpoints_during_recovery=drawn < 0.25)


def _manual(chance: random.Random) -> tuple[float, ...]:
    if chance.random() > 0.25:
        return ()
    return tuple(sorted(chance.uniform(0.0, 0.8) for _ in range(chance.randint(1, 3))))


def _bounded(case: StormCase) -> StormCase:
    """The case with so few records, and so little work on each, that it does not take too long."""
    while (longest := estimate_s(case)) > LONGEST_S:
        share = max(0.3, min(0.9, LONGEST_S / longest))
        case = replace(case, vertices=tuple(_lighter(vertex, share) for vertex in case.vertices))
    return case


def _lighter(vertex: StormVertex, share: float) -> StormVertex:
    """A vertex with that share of records; if there are few, with smaller ones and less work."""
    if vertex.work is not Work.SOURCE:
        return replace(vertex, service_s=vertex.service_s * share**0.5)
    least, greatest = vertex.record_bytes
    return replace(
        vertex,
        records=tuple(max(1, int(number * share**0.5)) for number in vertex.records),
        record_bytes=(least, max(least, int(greatest * share**0.5))),
    )


def _storable(case: StormCase) -> StormCase:
    """The case with records that can be keys of maps, where there are such."""
    if not any(vertex.work in (Work.GATHER_IN_MAP, Work.REMEMBER) for vertex in case.vertices):
        return case
    return replace(
        case,
        vertices=tuple(
            replace(each, record_bytes=(each.record_bytes[0], min(LONGEST_KEY, each.record_bytes[1])))
            for each in case.vertices
        ),
    )


def _settled(chance: random.Random, case: StormCase) -> StormCase:
    """The case with what depends on the job: little memory for some, and times that have to suffice."""
    case = replace(case, costs=draw_costs(chance, case))
    if chance.random() < 0.15:
        case = replace(case, config=with_scarce_memory(chance, case))
    if not case.patient:
        timeout = idle_checkpoint_s(case) * chance.uniform(1.5, 4.0)
        case = replace(case, config=replace(case.config, checkpoint_timeout_s=timeout))
    if case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        case = _comparable(case)
    return _flowing(case)


def _flowing(case: StormCase) -> StormCase:
    """A case that does not come to a standstill as a real job would.

    Where paths meet again, a barrier that overtakes on one may have to wait on an exchange that stays
    aligned for the one on the other; and its task cannot send that in the middle of a record that finds no
    buffers, since nobody reads behind the waiting barrier. So there, records fit into one buffer, and nothing
    is held back to be emitted all at once.
    """
    if not (paths_meet(case) and case.config.takes_unaligned_checkpoints):
        return case
    least = max(256, case.config.min_segment_bytes)
    return replace(
        case,
        vertices=tuple(
            replace(at_once(vertex), record_bytes=(8, min(60, vertex.record_bytes[1])))
            for vertex in case.vertices
        ),
        config=replace(
            case.config,
            min_segment_bytes=least,
            starting_segment_bytes=max(least, case.config.starting_segment_bytes),
        ),
    )


def _comparable(case: StormCase) -> StormCase:
    """A case whose output still tells something if records are processed twice.

    Of a sum then only its bound is known, so nothing may be made of it but output.
    """
    others = {source for source, target, _ in case.edges if case.vertex(target).work is not Work.SINK}
    return replace(
        case,
        vertices=tuple(
            replace(vertex, work=Work.PASS) if vertex.work in SUMS and vertex.name in others else vertex
            for vertex in case.vertices
        ),
    )
