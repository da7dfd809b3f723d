"""Measures how many unknown connections to a listening task delay its peers; prints a table as Markdown.

Run it with ``python -m benches.strangers``. A separate process opens a given number of connections to a
listening socket. On each connection it sends nothing, or only a valid hello. Then the time is measured until
two members of a mesh have connected through this socket. The second figure is for a `Letterbox`, through
which the tasks of a shuffle exchange their addresses: the time until it has answered two requests while as
many unknown connections are open.
"""

from __future__ import annotations

import logging
import multiprocessing as mp
import socket
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter

import trio

from flowcontrol import NONCE_BYTES, ClientHandshake, Identity, Secret
from netstack import Letterbox, Mesh, ask_letterbox, fresh_secret

RUNS = 5
COUNTS = (0, 100, 1100)
Address = tuple[str, int]


def besiege(address: Address, count: int, said: bytes, pipe: Connection) -> None:
    """Open `count` connections, send the bytes `said` on each, and wait for a message over `pipe`."""
    sockets = []
    for _ in range(count):
        stranger = socket.create_connection(address)
        stranger.sendall(said)
        sockets.append(stranger)
    pipe.send(None)
    pipe.recv()


async def measure(address: Address, count: int, said: bytes, work: Callable[[], Awaitable[None]]) -> float:
    """Return the seconds that `work` takes while `count` connections of another process are open."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    strangers = context.Process(target=besiege, args=(address, count, said, there))
    strangers.start()
    await trio.to_thread.run_sync(here.recv)
    started = perf_counter()
    await work()
    took = perf_counter() - started
    here.send(None)
    await trio.to_thread.run_sync(strangers.join)
    return took


async def mesh(secret: Secret, count: int, said: bytes) -> float:
    """Return the seconds to connect two members of a mesh; the unknown connections are to the first."""
    members = [Mesh(index, 2) for index in range(2)]
    addresses = [await member.listen() for member in members]

    async def connect(member: Mesh) -> None:
        for stream in (await member.connect(addresses, secret)).values():
            await trio.aclose_forcefully(stream)

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(connect, member)

    return await measure(addresses[0], count, said, work)


async def letterbox(secret: Secret, count: int, said: bytes) -> float:
    """Return the seconds in which a letterbox answers two questions, with the other connections open."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: Address = free.getsockname()

    async def answer(question: bytes) -> bytes:
        return question

    async def ask(question: bytes) -> None:
        while await ask_letterbox(address, secret, question, 100) is None:
            pass  # the letterbox may close this connection together with unknown ones

    async with Letterbox("127.0.0.1", secret, 2, 100, answer) as box:
        await box.open(address[1])

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(box.serve)
                for question in (b"one", b"two"):
                    nursery.start_soon(ask, question)

        return await measure(address, count, said, work)


def main() -> None:
    """Measure, and print the table."""
    logging.getLogger("netstack.tcp").setLevel(logging.ERROR)
    secret = fresh_secret()
    hello = ClientHandshake(fresh_secret(), Identity(1, 0, 2), bytes(NONCE_BYTES)).begin()
    print("| unknown connections | each sends | mesh, ms | letterbox, ms |\n|---|---|---|---|")
    for count in COUNTS:
        for name, said in (("nothing", b""), ("a valid hello", hello)):
            took = [
                1000 * median(trio.run(meet, secret, count, said) for _ in range(RUNS))
                for meet in (mesh, letterbox)
            ]
            print(f"| {count} | {name} | {took[0]:.0f} | {took[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
