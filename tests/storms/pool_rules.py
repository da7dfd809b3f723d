"""What the pools of a task manager promise in their docstrings, checked from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping

from buffers import LocalBufferPool, NetworkBufferPool

from .storm_operators import Broken


class PoolRules:
    """Checks the pools of one attempt; it remembers what each held at the last look.

    Only where no step is missed (`closely`) can be told whether a pool has taken what it may.
    """

    def __init__(self, *, closely: bool = True) -> None:
        self._closely = closely
        self._requested: dict[LocalBufferPool, int] = {}
        self._owed: dict[str, int] = {}

    def check(self, name: str, memory: NetworkBufferPool, *, may_owe: bool = False) -> None:
        """Check the memory of a task manager.

        `may_owe`: tasks were built anew there, whose exclusive segments may still be in use elsewhere.

        Raises:
            Broken: its pools do not add up, or one holds what it should have given back.
        """
        sizes, minima, out = 0, 0, 0
        resizable, most = 0, 0
        owed_before, self._owed[name] = self._owed.get(name, 0), memory.owed
        still_owed = bool(owed_before and memory.owed)
        for pool in memory.pools:
            self._check_pool(name, pool, still_owed)
            sizes += pool.size
            minima += pool.minimum
            out += pool.requested
            if pool.minimum < pool.maximum:
                resizable += pool.minimum
                most += pool.maximum
        exclusive = memory.guaranteed - minima
        if memory.guaranteed > memory.total or sizes + exclusive > memory.total:
            raise Broken(
                f"{name} has {memory.total} segments, {exclusive} of them exclusive, for pools of {sizes}"
            )
        rest = memory.total - memory.guaranteed
        wanted = minima - resizable + min(most, rest + resizable)
        if sizes != wanted:
            raise Broken(f"the pools of {name} may hold {sizes} segments together, and {wanted} are theirs")
        overdrawn = memory.owed > (memory._reserved if may_owe else 0)
        if overdrawn or out + exclusive > memory.used:
            raise Broken(f"{name} has lent {memory.used} segments, and {out} + {exclusive} are in use")

    def _check_pool(self, name: str, pool: LocalBufferPool, still_owed: bool) -> None:
        size, requested, free = pool.size, pool.requested, pool.free
        before, self._requested[pool] = self._requested.get(pool, 0), requested
        wrong = ""
        if not pool.minimum <= size <= pool.maximum:
            wrong = "has a size out of its bounds"
        elif free and requested > size:
            wrong = "keeps segments above its size"
        elif self._closely and requested > size + pool.max_overdraft and requested > before:
            wrong = "has taken more than its size and overdraft"
        elif self._closely and still_owed and requested > before:
            wrong = "has taken what is owed to others"
        elif pool.available and not free:
            wrong = "is available, and nothing is free"
        if wrong:
            raise Broken(f"a pool of {name} {wrong}: {pool.statistics()}")
        if free and not pool.available:
            now = pool.statistics()
            if not now.full_subpartitions or now.listeners:
                raise Broken(f"a pool of {name} lets somebody wait for what is free: {now}")


def check_shrunk(name: str, before: Mapping[LocalBufferPool, int]) -> None:
    """Pools that had `before` segments, and were resized since, have given back no more than they had to.

    Raises:
        Broken: one has.
    """
    for pool, requested in before.items():
        if pool.requested < min(requested, pool.size):
            text = f"a pool of {name} had {requested} segments and keeps {pool.requested}"
            raise Broken(f"{text}, where its size is {pool.size}")
