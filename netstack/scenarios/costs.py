"""The costs of a machine, and the network between machines.

Names carry their units: ``_s`` is seconds, ``_bytes`` bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tables import key, written_key
from .value_kinds import FLOAT, RATE, TIME, range_of

__all__ = ["CostModel", "LinkConditions"]

Range = tuple[float, float]
"""Minimum and maximum of a random value; the field's name ends with the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Short delays of the machine that the protocol does not determine, measured once for all scenarios.

    A value is drawn uniformly from a `Range`. Times of threads and wires are medians of a log-normal
    distribution with the sigma `jitter_sigma`.
    """

    adaptive_look_s: float = key(
        TIME,
        3e-9,
        "Time to read the load of one subpartition, for adaptive partition selection.",
    )
    """Measured in a Flink 2.3.0.

    A source that sends records of 21 bytes to eight consumers took 80 ns of processor time for a record
    without the selection, and 92, 101, 106 and 108 ns with the traverse sizes 2, 4, 6 and 8 (medians of five
    rounds on two cores with other work). The slope is 3.0 ns; its 95 % interval is 1.7 to 4.2 ns.
    One later round with less other work gave 1.1 ns.
    """
    source_record_s: float = written_key(TIME, 3e-6, "Time for each generated record.")
    consumer_buffer_s: float = written_key(
        TIME, 25e-6, "Time for each buffer read, multiplied by the factor of the subtask."
    )
    consumer_record_s: float = written_key(TIME, 0.8e-6, "Time for each record read.")
    after_sleep_s: float = written_key(TIME, 4e-6, "Time added to each sleep.")
    oversleep_s: float = written_key(
        TIME,
        70e-6,
        "Time by which a sleep is too long, multiplied by a random number from 0.5 to 1.5. The next sleep is "
        "shorter by this time.",
    )
    subtask_factor: Range = written_key(
        range_of(FLOAT), (0.6, 1.4), "Factor of the time for each buffer, drawn once for each subtask."
    )
    wake_up_s: float = written_key(
        TIME, 40e-6, "Time from a notification until a waiting task runs (median)."
    )
    notify_s: float = written_key(
        TIME, 30e-6, "Time of a notification from a subtask to the network thread (median)."
    )
    wire_s: float = written_key(TIME, 30e-6, "Travel time of a message (median).")
    wire_message_s: float = written_key(TIME, 15e-6, "Time for which a message occupies the wire (median).")
    wire_rate_bytes_per_s: float = written_key(RATE, 2e9, "Bandwidth of the loopback.")
    network_send_s: float = key(
        TIME,
        30e-6,
        "Processor time of the network threads for each buffer sent to another task manager. It matters only "
        "if CPU-bound tasks share cores.",
    )
    """Measured in a Flink 2.3.0, as the processor time of Netty's threads (`python -m tests.flink costs`).

    Two to four consumers waited, and read 300 to 4,800 buffers per second of 32, 8 and 4 KB. Smaller buffers
    cost the sender 20 to 38 us each, and the receiver 13 to 31 us. More buffers are sent at once if they are
    smaller, so 4 KB cost less than 8 KB.
    """
    network_receive_s: float = key(
        TIME, 22e-6, "Processor time of the network threads for each buffer received; see `network_send`."
    )
    jitter_sigma: float = written_key(
        FLOAT, 1.0, "Sigma of the log-normal distribution of the times marked as medians."
    )
    deploy_s: float = written_key(
        TIME,
        0.065,
        "Time for scheduling and deployment: from the end of a restart delay until a task reads its state.",
    )
    deploy_per_task_s: float = written_key(
        TIME, 0.0115, "Further deployment time for each task of a task manager."
    )
    trigger_s: Range = written_key(
        range_of(TIME),
        (0.005, 0.010),
        "Time from the trigger of a checkpoint until it reaches the first source.",
    )
    trigger_per_source_s: float = written_key(
        TIME, 0.003, "Further delay of the trigger for each source after the first."
    )
    sync_s: Range = written_key(range_of(TIME), (0.0005, 0.002), "Duration of a snapshot's synchronous part.")
    ack_s: Range = written_key(
        range_of(TIME), (0.003, 0.007), "Time from a snapshot until the coordinator has its acknowledgement."
    )
    ack_unaligned_s: Range = written_key(
        range_of(TIME),
        (0.008, 0.020),
        "Time from a snapshot with in-flight data until the coordinator has its acknowledgement.",
    )
    upload_rate_bytes_per_s: float = written_key(
        RATE, 1e9, "Rate at which a task writes state to the checkpoint storage."
    )
    download_rate_bytes_per_s: float = written_key(
        RATE, 1e9, "Rate at which a task reads state from the checkpoint storage."
    )
    state_file_s: float = written_key(TIME, 0.005, "Time for each file of state, whatever its size.")
    serialize_rate_bytes_per_s: float = written_key(
        RATE, 100e6, "Rate at which a task serialises state for a file."
    )
    log_rate_bytes_per_s: float = written_key(
        RATE, 130e6, "Rate at which a task collects the changes since the last materialisation."
    )
    ack_rate_bytes_per_s: float = written_key(
        RATE, 150e6, "Rate at which the coordinator reads a changelog in an acknowledgement."
    )
    materialize_start_s: float = written_key(
        TIME, 0.13, "Time from the opening of a task until its materialisation timer starts."
    )
    table_flush_rate_bytes_per_s: float = written_key(
        RATE, 50e6, "Rate at which a blocked task flushes its latest changes to a table file."
    )
    table_snapshot_s: float = written_key(
        TIME, 0.010, "Time for which a task is blocked while it links the table files of a snapshot."
    )
    table_read_s: float = written_key(TIME, 60e-6, "Time to read an entry of a table.")
    table_write_s: float = written_key(TIME, 60e-6, "Time to write or remove an entry of a table.")
    log_write_s: float = written_key(TIME, 4e-6, "Time to add a change to a changelog.")
    table_compaction_rate_bytes_per_s: float = written_key(
        RATE, 100e6, "Rate at which table files are merged in the background: bytes read plus bytes written."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConditions:
    """The network between two task managers, in addition to the costs of the loopback."""

    latency_s: float = written_key(TIME, 0.0, "Delay of each message.")
    bandwidth_bytes_per_s: float | None = key(
        RATE,
        None,
        "Bandwidth of each direction, shared by all channels of two task managers; None: unlimited.",
    )
