"""A job with a rate that is below its limit, small enough to run at many loads."""

from __future__ import annotations

from dataclasses import replace

from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex

LIMIT = 1.6
"""Its limit by arithmetic: a record takes 2.5 ms, and 250 records per second arrive for each subtask."""

JOB = Scenario(
    name="paced",
    duration_s=24.0,
    warmup_s=4.0,
    vertices=(
        Vertex(name="orders", source=GeneratorSpec(record_bytes=1000, rates=(250.0,))),
        Vertex(name="work", service=((0.0, 0.0025),)),
    ),
    edges=(Edge(source="orders", target="work"),),
    config=NetworkConfig(checkpoint_interval_s=2.0),
)

UNLIMITED = replace(
    JOB, vertices=(Vertex(name="orders", source=GeneratorSpec(record_bytes=1000)), JOB.vertices[1])
)
"""The same job, whose source emits as fast as possible."""
