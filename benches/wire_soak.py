"""Runs TCP connections at full rate for an hour, with cuts, restarts and slow readers; prints a table.

Run it with ``python -m benches.wire_soak [--minutes 60]``. Three processes send each other records through a
`Transport`, as fast as possible, in rounds of some seconds. All connections lead through a relay. In some
rounds, the relay cuts a connection, or forwards nothing on it for a while. In other rounds, a reader is slow.
After a cut all transports must fail. The next round is then a restart: it continues after the records that
were read.

Each record contains its sender and its number, from which its length and its other bytes are computed. The
readers compare all of them. So the run ends with status 1 if a byte is lost, doubled, changed or out of
order, or if memory grows.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import random
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import NamedTuple

import trio

from flowcontrol import Secret
from netstack import Transport, TransportError, fresh_secret

from .soak import resident_bytes, row

PROCESSES = 3
ROUND_S = 5.0
BATCH_RECORDS = 64
LONGEST_RECORD = 20_000
HEADER = 9
"""Length of a record's header in bytes: the sender, and the number of the record."""
FLAT_BYTES = 16 << 20
"""Maximum growth of a process's memory in bytes, from the first quarter of the rounds to the last quarter."""
KINDS = ("left alone", "slow reader", "stands still", "cut")
CONTENTS = memoryview(random.Random(1).randbytes(1 << 20))


class Round(NamedTuple):
    """Task of a process in one round.

    `kind` is the disturbance. `victim` is the process whose reader is slow if `kind` is "slow reader".
    `begins_at` has, for each receiver, the number of the next record to send.
    """

    kind: str
    victim: int
    addresses: list[tuple[str, int]]
    secret: Secret
    begins_at: list[int]


@dataclass(frozen=True)
class Outcome:
    """Result of a round in a process."""

    got: list[int]
    """Records read so far from each process."""
    read_bytes: int
    problem: str
    """The first wrong record; empty: none."""
    failure: str
    """Error of the transport; empty: none."""
    resident: int
    leaked_segments: int


def record_of(sender: int, receiver: int, number: int) -> bytes:
    """Return a record, whose bytes are computed from its sender, its receiver and its number."""
    mixed = (number * 2654435761 + sender * 40503 + receiver * 9973) & 0xFFFFFFFF
    length = mixed % LONGEST_RECORD
    start = (mixed >> 8) % (len(CONTENTS) - LONGEST_RECORD)
    return b"".join((bytes([sender]), number.to_bytes(8, "big"), CONTENTS[start : start + length]))


class Peer:
    """One process of the exchange, in all rounds."""

    def __init__(self, index: int, pipe: Connection) -> None:
        self._index, self._pipe = index, pipe
        self._got = [0] * PROCESSES
        self._problem = ""

    def serve(self) -> None:
        """Run the rounds that arrive over the pipe, until None arrives."""
        while True:
            transport = Transport(self._index, PROCESSES)
            self._pipe.send(transport.listen())
            wanted: Round | None = self._pipe.recv()
            if wanted is None:
                transport.close()
                return
            self._pipe.send(self._round(transport, wanted))

    def _round(self, transport: Transport, wanted: Round) -> Outcome:
        self._read_bytes, failure = 0, ""
        try:
            transport.connect(wanted.addresses, wanted.secret)
            writer = threading.Thread(target=self._write, args=(transport, wanted))
            writer.start()
            try:
                self._read(transport, slow=wanted.kind == "slow reader" and wanted.victim == self._index)
            finally:
                writer.join()
            transport.close()
        except TransportError as error:
            failure = str(error)
            transport.close(error)
        return Outcome(
            got=list(self._got),
            read_bytes=self._read_bytes,
            problem=self._problem,
            failure=failure,
            resident=resident_bytes(),
            leaked_segments=transport.leaked_segments,
        )

    def _write(self, transport: Transport, wanted: Round) -> None:
        """Send records to the other processes in turn until the round is over.

        Each process gets the records after those that it has read.
        """
        numbers = list(wanted.begins_at)
        ends_at = monotonic() + ROUND_S
        try:
            while monotonic() < ends_at:
                for receiver in range(PROCESSES):
                    if receiver != self._index:
                        first = numbers[receiver]
                        numbers[receiver] += BATCH_RECORDS
                        each = range(first, first + BATCH_RECORDS)
                        transport.write([(receiver, record_of(self._index, receiver, n)) for n in each])
            transport.finish_writing()
        except TransportError:
            pass  # the reader gets this error too

    def _read(self, transport: Transport, *, slow: bool) -> None:
        while (records := transport.read()) is not None:
            for record in records:
                self._check(record)
            if slow:
                sleep(0.01)

    def _check(self, record: memoryview) -> None:
        sender = record[0]
        number = self._got[sender]
        if record != record_of(sender, self._index, number) and not self._problem:
            came = int.from_bytes(record[1:HEADER], "big")
            self._problem = (
                f"process {self._index} got record {came} of process {sender}, but expected {number}"
            )
        self._got[sender] += 1
        self._read_bytes += len(record)


class Relay:
    """Relay that forwards the bytes of all connections.

    In some rounds it cuts one connection, or forwards nothing on it for a while.
    """

    def __init__(self, kind: str, chance: random.Random) -> None:
        self._kind = kind
        self._victim = chance.randrange(PROCESSES * (PROCESSES - 1) // 2)
        self._connections = 0
        self._at = monotonic() + chance.uniform(0.2, 0.8) * ROUND_S

    async def serve(self, listener: trio.SocketListener, to: tuple[str, int]) -> None:
        """Forward each connection that `listener` accepts to the address of a process."""

        async def handle(stream: trio.SocketStream) -> None:
            touched = self._connections == self._victim
            self._connections += 1
            onward = await trio.open_tcp_stream(*to)
            with trio.CancelScope() as scope:
                async with stream, onward, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, stream, onward, touched, scope)
                    nursery.start_soon(self._pass_on, onward, stream, touched, scope)

        await trio.serve_listeners(handle, [listener])

    async def _pass_on(
        self, source: trio.SocketStream, target: trio.SocketStream, touched: bool, scope: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some(1 << 18):
                if touched and monotonic() > self._at:
                    if self._kind == "cut":
                        scope.cancel()
                        return
                    if self._kind == "stands still":
                        touched = False
                        await trio.sleep(0.3 * ROUND_S)
                await target.send_all(data)
            await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()


async def run_round(pipes: list[Connection], kind: str, got: list[list[int]], seed: int) -> list[Outcome]:
    """Run one round, and return the outcome of each process."""
    chance = random.Random(seed)
    addresses = [pipe.recv() for pipe in pipes]
    secret, victim = fresh_secret(), chance.randrange(PROCESSES)
    async with trio.open_nursery() as nursery:
        relay, relayed = Relay(kind, chance), []
        for address in addresses:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            relayed.append(listener.socket.getsockname()[:2])
            nursery.start_soon(relay.serve, listener, address)
        for index, pipe in enumerate(pipes):
            begins_at = [got[receiver][index] for receiver in range(PROCESSES)]
            task = Round(kind, victim, addresses=relayed, secret=secret, begins_at=begins_at)
            pipe.send(task)
        outcomes = [await trio.to_thread.run_sync(pipe.recv) for pipe in pipes]
        nursery.cancel_scope.cancel()
    return outcomes


def problems_of(kind: str, outcomes: list[Outcome]) -> list[str]:
    """Return the problems of a round."""
    problems = [each.problem for each in outcomes if each.problem]
    failed = [each.failure for each in outcomes if each.failure]
    if kind == "cut" and len(failed) < len(outcomes):
        problems.append(f"a connection was cut, but {len(outcomes) - len(failed)} processes did not fail")
    if kind != "cut" and failed:
        problems.append(f"a process failed without a cut: {failed[0]}")
    return problems + [f"{each.leaked_segments} segments leaked" for each in outcomes if each.leaked_segments]


def flat(resident: list[list[int]]) -> list[str]:
    """Return the problems with the memory of the processes over all rounds."""
    quarter = len(resident) // 4
    problems = []
    for index in range(PROCESSES if quarter else 0):
        first, last = (
            max(each[index] for each in part) for part in (resident[:quarter], resident[-quarter:])
        )
        if last > first + FLAT_BYTES:
            problems.append(f"memory of process {index} grew from {first >> 20} to {last >> 20} MiB")
    return problems


def main() -> None:
    """Print a row for each minute, and the problems."""
    parser = argparse.ArgumentParser(prog="python -m benches.wire_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration in minutes (%(default)g)")
    options = parser.parse_args()
    context = mp.get_context("spawn")
    ends = [context.Pipe() for _ in range(PROCESSES)]
    pipes = [ours for ours, _ in ends]
    for index, (_, theirs) in enumerate(ends):
        context.Process(target=_serve, args=(index, theirs), daemon=True).start()
    started, seed, total = monotonic(), 0, 0
    kinds: Counter[str] = Counter()
    got = [[0] * PROCESSES for _ in range(PROCESSES)]
    resident: list[list[int]] = []
    problems: list[str] = []
    row("minute", "rounds", "rounds with a cut", "GB read", "maximum resident, MiB")
    row(*["---:"] * 5)
    shown = 0
    while (minutes := (monotonic() - started) / 60) < options.minutes and not problems:
        kind = KINDS[seed % len(KINDS)]
        outcomes = trio.run(run_round, pipes, kind, got, seed)
        seed += 1
        kinds[kind] += 1
        got = [each.got for each in outcomes]
        total += sum(each.read_bytes for each in outcomes)
        resident.append([each.resident for each in outcomes])
        problems += [f"round {seed} ({kind}): {problem}" for problem in problems_of(kind, outcomes)]
        if minutes >= shown:
            shown += 1
            most = max(resident[-1]) / (1 << 20)
            row(f"{minutes:.0f}", str(seed), str(kinds["cut"]), f"{total / 1e9:.1f}", f"{most:.1f}")
    problems += flat(resident)
    for pipe in pipes:
        pipe.recv()
        pipe.send(None)
    print(f"\n{total / 1e9:.1f} GB in {seed} rounds: {dict(kinds)}")
    for problem in problems:
        print(f"WRONG: {problem}")
    sys.exit(bool(problems))


def _serve(index: int, pipe: Connection) -> None:
    Peer(index, pipe).serve()


if __name__ == "__main__":
    main()
