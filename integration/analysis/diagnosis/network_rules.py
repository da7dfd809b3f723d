"""Whether the network is the limit: writers are full, and readers wait for data.

Credit is what a reader has free buffers for, and it comes back a round trip later, so a channel cannot carry
more than its buffers in a round trip, whatever the bandwidth::

    throughput of a subtask <= (exclusive buffers of its channels + floating ones) x size / round trip
"""

from __future__ import annotations

from collections.abc import Iterator

from netstack import VertexSteady

from ..wording import milliseconds, percent, size
from .finding import (
    Finding,
    any_of,
    complete,
    is_empty,
    is_full,
    mean,
    span,
    span_percent,
)
from .observation import Exchange, Observation

_MOSTLY_IDLE = 0.2
"""Share of its time that a reader is idle, on average, when it waits for the network."""

_NEAR = 0.7
"""Share of a limit from which throughput is explained by it."""


def network_bound(seen: Observation) -> Iterator[Finding]:
    """Writers full, readers empty and idle: what is between them is slow."""
    for writer in seen.vertices:
        readers = [(exchange, reader) for exchange, reader in seen.outputs(writer) if exchange.remote]
        if not seen.is_back_pressured(writer) or not is_full(writer.outPoolUsage):
            continue
        if any_of(is_full(reader.inPoolUsage) for _, reader in readers) is not False:
            continue
        for exchange, reader in readers:
            idle = mean(reader.idle_ms_per_s)
            if is_empty(reader.inPoolUsage) and idle is not None and idle / 1000 >= _MOSTLY_IDLE:
                yield _network(seen, exchange, writer, reader)


def _network(seen: Observation, exchange: Exchange, writer: VertexSteady, reader: VertexSteady) -> Finding:
    evidence = [
        f"outPoolUsage of {writer.name}: {span(writer.outPoolUsage)}, back-pressured "
        f"{span_percent(writer.backpressured_ms_per_s)} of the time",
        f"inPoolUsage of {reader.name}: {span(reader.inPoolUsage)}, idle "
        f"{span_percent(reader.idle_ms_per_s)}",
    ]
    limits = list(_limits(seen, reader))
    near = [text for text, nearness in limits if nearness >= _NEAR]
    what = [text for text, _ in limits]
    unknown = "the round trip is not known: compare throughput with buffers x size / round trip"
    if seen.link is not None:
        unknown = "what credit and bandwidth would allow cannot be told, or limits nothing"
    return Finding(
        rule="network-bound",
        severity="problem",
        where=exchange.name,
        says="The writers are full and the readers wait: the network between them is the limit"
        + (", not an operator." if near else ", or its round trip is long for the credit there is."),
        evidence=[*evidence, *(what or [unknown])],
        next=[
            "look at bandwidth and latency between the task managers, and at who else uses them",
            "where the round trip is the limit, give channels more buffers, or raise the parallelism: "
            "`netstack size` says how many a link needs",
        ],
    )


def _limits(seen: Observation, reader: VertexSteady) -> Iterator[tuple[str, float]]:
    """What credit and bandwidth allow, in words, and how near the measured rate comes to it."""
    rates, link = complete(reader.bytes_in_per_s), seen.link
    if link is None or rates is None:
        return
    config, channels = seen.config, seen.channels(reader)
    buffer_bytes = mean(reader.debloatedBufferSize) if config.debloat_enabled else config.segment_bytes
    if link.latency_s > 0 and channels and buffer_bytes is not None:
        buffers = channels * config.exclusive_buffers_per_channel
        buffers += seen.gates(reader) * config.floating_buffers_per_gate
        limit = buffers * buffer_bytes / (2 * link.latency_s)
        nearness = max(rates) / limit
        yield (
            f"{buffers} buffers of {size(buffer_bytes)} in a round trip of "
            f"{milliseconds(2000 * link.latency_s)} make {size(limit)}/s a subtask at most; it reads "
            f"{percent(nearness)} of that",
            nearness,
        )
    if link.bandwidth_bytes_per_s is not None:
        nearness = sum(rates) / link.bandwidth_bytes_per_s
        yield f"{percent(nearness)} of a bandwidth of {size(link.bandwidth_bytes_per_s)}/s is used", nearness


NETWORK_RULES = (network_bound,)
