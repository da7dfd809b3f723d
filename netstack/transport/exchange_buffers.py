"""Where one process of an exchange keeps records: its network memory, partition and gate."""

from __future__ import annotations

from collections.abc import Callable

from buffers import (
    UNLIMITED_SIZE,
    MemorySegment,
    NetworkBufferPool,
    PipelinedSubpartition,
    partition_buffers,
)

from ..exchange.gate import InputGate
from ..exchange.partition import ResultPartition
from ..scenarios.config_rules import debloater_of
from .transport_config import TransportConfig


class ExchangeBuffers:
    """The memory, the partition and the gate, still without channels, of process `index` of `size`.

    `on_room` is called when a record may be begun, `on_data` when one may be read.

    Raises:
        InsufficientBuffers: if the network memory of `config` is too little for so many processes.
    """

    def __init__(
        self,
        index: int,
        size: int,
        config: TransportConfig,
        on_room: Callable[[], None],
        on_data: Callable[[], None],
    ) -> None:
        self._size = size
        self._config = config
        self.memory = NetworkBufferPool(config.segments(size), config.network.segment_bytes)
        # These first: what is written before there are channels must not take their memory.
        count = config.gate(size).exclusive_per_channel
        peers = (peer for peer in range(size) if peer != index)
        self._exclusive = {peer: self.memory.request_unpooled(count) for peer in peers}
        self.subpartitions = self._make_subpartitions(count)
        self.partition = self._make_partition(on_room)
        self.gate = self._make_gate(f"process {index}", on_data)

    def _make_subpartitions(self, receiver_exclusive: int) -> list[PipelinedSubpartition]:
        network = self._config.network
        starting_size = network.starting_segment_bytes if network.debloat_enabled else UNLIMITED_SIZE
        return [
            PipelinedSubpartition(target, starting_size=starting_size, receiver_exclusive=receiver_exclusive)
            for target in range(self._size)
        ]

    def _make_partition(self, on_room: Callable[[], None]) -> ResultPartition:
        network = self._config.network
        minimum, maximum = partition_buffers(
            self._size, network.exclusive_buffers_per_channel, network.floating_buffers_per_gate
        )
        pool = self.memory.create_pool(
            maximum,
            minimum,
            maximum,
            subpartitions=self._size,
            max_buffers_per_channel=network.max_buffers_per_channel,
            max_overdraft=network.max_overdraft_buffers_per_gate,
            on_available=on_room,
        )
        return ResultPartition(pool, self.subpartitions, flush_always=network.buffer_timeout_s == 0)

    def _make_gate(self, name: str, on_data: Callable[[], None]) -> InputGate:
        spec = self._config.gate(self._size)
        pool = self.memory.create_pool(spec.total_floating, spec.required_floating, spec.total_floating)
        return InputGate(name, pool, debloater_of(self._config.network), on_data)

    def take_exclusive(self, peer: int) -> list[MemorySegment]:
        """The segments of the channel from `peer`, which gives them back itself."""
        return self._exclusive.pop(peer)

    def release(self) -> int:
        """Give all memory back when nothing is on a link; returns how many segments somebody still has."""
        for segments in self._exclusive.values():
            self.memory.recycle_unpooled(segments)
        self.partition.release()
        self.gate.release()
        leaked = self.memory.used
        self.memory.destroy()
        return leaked
