"""Strangers that find a listener, and peers that are not what they should be.

In most tests a mesh of three is one process short, so that it listens; then somebody comes who does not
belong there, is refused, and the right process comes. What the stranger did is seen in the log and nowhere
else.
"""

from __future__ import annotations

import logging
import re
import resource
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest
import trio

from flowcontrol import ClientHandshake, Identity, Secret
from netstack.errors import HandshakeError, UnprovenError
from netstack.tcp.handshaking import TlsContexts, dial, fresh_nonce
from netstack.tcp.mesh import Mesh
from netstack.tcp.pipe import ConnectionLimits, free_descriptors
from tests.netstack.meshes import (
    PATIENT,
    SECRET,
    Address,
    Streams,
    check_pairs,
    close,
    connect,
    log_lines,
    no_socket_left,
    open_files,
    relay,
    tls_contexts,
)

pytestmark = pytest.mark.long

WRONG_SECRET = Secret(b"a guess at the secret")
HELLO = ClientHandshake(SECRET, Identity(2, 0, 3), bytes(32)).begin()
IMPATIENT = ConnectionLimits(connect_timeout_s=300, handshake_timeout_s=1)

Stranger = Callable[[Address], Awaitable[Address]]
"""Does something to a listener; returns the address that it came from."""


@pytest.fixture(autouse=True)
def _no_socket_left() -> Iterator[None]:
    with no_socket_left():
        yield


def own_address(stream: trio.SocketStream) -> Address:
    host, port = stream.socket.getsockname()
    return host, port


async def is_closed(stream: trio.SocketStream) -> bool:
    """Wait for the end of what the listener sends, whatever that is."""
    with suppress(trio.BrokenResourceError):
        async for _ in stream:
            pass
    return True


def saying(*pieces: bytes) -> Stranger:
    """A peer that sends these pieces one after the other, and waits until its connection is closed."""

    async def stranger(address: Address) -> Address:
        async with await trio.open_tcp_stream(*address) as stream:
            with suppress(trio.BrokenResourceError):
                for piece in pieces:
                    await stream.send_all(piece)
            assert await is_closed(stream)
            return own_address(stream)

    return stranger


def leaving(data: bytes = b"", *, reset: bool = False) -> Stranger:
    """A peer that sends the data and closes the connection, with a FIN or with a RST."""

    async def stranger(address: Address) -> Address:
        stream = await trio.open_tcp_stream(*address)
        if data:
            await stream.send_all(data)
        if reset:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        source = own_address(stream)
        await stream.aclose()
        return source

    return stranger


async def guessing(address: Address) -> Address:
    """A peer that follows the protocol, but does not know the secret."""
    async with await trio.open_tcp_stream(*address) as stream:
        handshake = ClientHandshake(WRONG_SECRET, Identity(2, 0, 3), fresh_nonce())
        await stream.send_all(handshake.begin())
        challenge = b""
        while handshake.wanted > len(challenge):
            challenge += await stream.receive_some(handshake.wanted - len(challenge))
        await stream.send_all(handshake.receive(challenge))
        assert await is_closed(stream)
        return own_address(stream)


def dripping(data: bytes) -> Stranger:
    """A peer that keeps a connection open by sending a correct byte now and then."""

    async def stranger(address: Address) -> Address:
        async with await trio.open_tcp_stream(*address) as stream:
            with suppress(trio.BrokenResourceError):
                for index in range(len(data)):
                    await stream.send_all(data[index : index + 1])
                    with trio.move_on_after(0.1):
                        assert await stream.receive_some() == b""
                        break
            assert await is_closed(stream)
            return own_address(stream)

    return stranger


def tls_hello() -> bytes:
    """The first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = tls_contexts().client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def greeting_with_tls(address: Address) -> Address:
    """A TLS client that trusts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with await trio.open_tcp_stream(*address) as transport:
        stream = trio.SSLStream(transport, context)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(bytes(200))
            await stream.receive_some()
        assert await is_closed(transport)
        return own_address(transport)


async def besiege(
    stranger: Stranger,
    problem: str,
    limits: ConnectionLimits = PATIENT,
    tls: TlsContexts | None = None,
) -> None:
    """Let processes 0 and 1 wait for 2, the stranger be refused by 0 with `problem`, and then 2 come."""
    with log_lines() as log:
        meshes = [Mesh(index, 3, limits, tls=tls) for index in range(3)]
        addresses = [await mesh.listen() for mesh in meshes]
        connected: dict[int, Streams] = {}
        async with trio.open_nursery() as nursery:
            for index in (0, 1):
                nursery.start_soon(connect, meshes[index], addresses, connected, index)
            host, port = await stranger(addresses[0])
            await log.wait_for(1)
            assert connected == {}
            nursery.start_soon(connect, meshes[2], addresses, connected, 2)
        await check_pairs(connected)
    (line,) = log.lines
    assert re.fullmatch(f"refused a connection from {host}:{port}: ({problem})", line), line
    assert log.levels == {logging.WARNING}


NO_PROTOCOL = "the peer does not speak netstack's protocol"
LEFT = "the peer disconnected before it had proven that it knows the secret"
RESET = "Connection reset by peer"
NO_PROOF = "the peer did not prove that it knows the secret"


def hello(dialler: int, listener: int, size: int) -> bytes:
    return ClientHandshake(SECRET, Identity(dialler, listener, size), bytes(32)).begin()


STRANGERS: list[tuple[str, Stranger, str]] = [
    ("a browser", saying(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), NO_PROTOCOL),
    ("frames without a handshake", saying(bytes.fromhex("00000009 badc0ffe 05")), NO_PROTOCOL),
    ("one wrong byte", saying(b"\0"), NO_PROTOCOL),
    ("a megabyte of garbage", saying(bytes(range(256)) * 4096), NO_PROTOCOL),
    (
        "garbage behind a right beginning",
        saying(HELLO[:8], b"\xff" * 100),
        "the peer speaks another version .*",
    ),
    ("garbage in place of a proof", saying(HELLO, bytes(32)), NO_PROOF),
    ("somebody without the secret", guessing, NO_PROOF),
    ("a port scanner", leaving(), LEFT),
    ("a port scanner that resets", leaving(reset=True), RESET),
    ("a truncated hello", leaving(HELLO[:-1]), LEFT),
    ("a truncated handshake", leaving(HELLO + bytes(31)), f"{LEFT}|{RESET}|Broken pipe"),
    ("a handshake that is reset", leaving(HELLO[:20], reset=True), RESET),
    (
        "another mesh",
        saying(hello(2, 0, 4)),
        "the peer belongs to a mesh of another size; this mesh has 3 processes",
    ),
    (
        "a process that looks for another",
        saying(hello(2, 1, 3)),
        "the peer wants to reach another process; this is process 0",
    ),
    ("a TLS client", greeting_with_tls, NO_PROTOCOL),
]


@pytest.mark.parametrize(
    ("stranger", "problem"), [row[1:] for row in STRANGERS], ids=[row[0] for row in STRANGERS]
)
def test_a_stranger_is_refused_and_disturbs_nobody(stranger: Stranger, problem: str) -> None:
    trio.run(besiege, stranger, problem)


@pytest.mark.parametrize(
    ("stranger", "problem"),
    [
        (saying(bytes(range(256)) * 4), r"the TLS handshake failed \(\w+\)"),
        (saying(b"GET / HTTP/1.1\r\n\r\n"), r"the TLS handshake failed \(HTTP_REQUEST\)"),
        (saying(HELLO), r"the TLS handshake failed \(\w+\)"),
        (leaving(), r"the TLS handshake failed \(.*\)"),
        (greeting_with_tls, NO_PROTOCOL),
    ],
    ids=["garbage", "a browser", "a peer without TLS", "a port scanner", "a TLS client with garbage"],
)
def test_a_stranger_is_refused_by_a_mesh_with_tls(stranger: Stranger, problem: str) -> None:
    trio.run(besiege, stranger, problem, PATIENT, tls_contexts())


@pytest.mark.parametrize(
    ("stranger", "encrypted"),
    [(saying(), False), (saying(), True), (dripping(HELLO[:-1]), False), (dripping(tls_hello()[:-1]), True)],
    ids=["silent", "silent, tls", "dripping", "dripping, tls"],
)
def test_a_slow_stranger_is_put_out_when_its_time_is_over(stranger: Stranger, encrypted: bool) -> None:
    tls = tls_contexts() if encrypted else None
    trio.run(besiege, stranger, "the peer did not prove within 1 s that it knows the secret", IMPATIENT, tls)


def test_a_process_with_another_secret_gets_an_error_that_says_so() -> None:
    async def main() -> None:
        with log_lines() as log:
            mesh, wrong, right = Mesh(0, 2), Mesh(1, 2), Mesh(1, 2)
            address = await mesh.listen()
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, mesh, [address] * 2, connected, 0)
                await wrong.listen()
                with pytest.raises(HandshakeError) as caught:
                    await wrong.connect([address] * 2, WRONG_SECRET)
                assert str(caught.value) == (
                    f"task 0 at 127.0.0.1:{address[1]}: the peer rejected this process: the peer has "
                    "another secret, or is already connected to this process"
                )
                await right.listen()
                nursery.start_soon(connect, right, [address] * 2, connected, 1)
            await check_pairs(connected)
        assert [re.sub(r":\d+:", ":0:", line) for line in log.lines] == [
            f"refused a connection from 127.0.0.1:0: {NO_PROOF}"
        ]

    trio.run(main)


def test_a_second_connection_of_a_connected_process_is_refused() -> None:
    async def main() -> None:
        with log_lines() as log:
            mesh = Mesh(0, 3, PATIENT)
            address = await mesh.listen()
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, mesh, [address] * 3, connected, 0)
                first = await dial(address, SECRET, Identity(1, 0, 3), None)
                with pytest.raises(UnprovenError, match="is already connected") as caught:
                    await dial(address, SECRET, Identity(1, 0, 3), None)
                assert caught.value.final
                last = await dial(address, SECRET, Identity(2, 0, 3), None)
            await first.send_all(b"still here")
            assert await connected[0][1].receive_some() == b"still here"
            connected[1] = {0: first}
            connected[2] = {0: last}
            await close(connected)
        assert [line.partition(": ")[2] for line in log.lines] == ["task 1 is already connected"]

    trio.run(main)


@pytest.mark.parametrize("said", [b"", HELLO], ids=["nothing", "a right hello"])
def test_peers_get_in_while_strangers_hold_all_places(said: bytes) -> None:
    """The strangers stay as long as they may; the oldest are disconnected when another peer connects."""

    async def main() -> None:
        limits = ConnectionLimits(max_connections=3, handshake_timeout_s=300, connect_timeout_s=300)
        with log_lines() as log:
            meshes = [Mesh(index, 3, limits) for index in range(3)]
            addresses = [await mesh.listen() for mesh in meshes]
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, meshes[0], addresses, connected, 0)
                strangers = [await trio.open_tcp_stream(*addresses[0]) for _ in range(9)]
                await log.wait_for(6)  # three of the nine are in
                for stranger in strangers[6:]:
                    await stranger.send_all(said)
                for index in (1, 2):
                    nursery.start_soon(connect, meshes[index], addresses, connected, index)
            for stranger in strangers:
                assert await is_closed(stranger)
                await stranger.aclose()
            await check_pairs(connected)
        assert {line.partition(": ")[2] for line in log.lines} == {"3 connections are already open"}
        ports = [line.partition(": ")[0].rpartition(":")[2] for line in log.lines]
        assert len(set(ports)) == len(ports)

    trio.run(main)


def test_strangers_leave_a_process_half_of_its_descriptors() -> None:
    async def main() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        strangers = [trio.socket.socket() for _ in range(60)]
        mesh, peer = Mesh(0, 2, PATIENT), Mesh(1, 2, PATIENT)
        connected: dict[int, Streams] = {}
        with log_lines() as log:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 42, hard))
            try:
                addresses = [await mesh.listen(), await peer.listen()]
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connect, mesh, addresses, connected, 0)
                    for stranger in strangers:
                        await stranger.connect(addresses[0])
                    await log.wait_for(40)
                    assert free_descriptors() >= 18
                    nursery.start_soon(connect, peer, addresses, connected, 1)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for stranger in strangers:
                    stranger.close()
            await check_pairs(connected)
        assert {re.sub(r"\d+", "N", line.partition(": ")[2]) for line in log.lines} == {
            "N connections are already open"
        }

    trio.run(main)


def test_a_flood_of_strangers_is_refused_one_by_one() -> None:
    """They come faster than they are put out; each gets its line, and the mesh completes."""

    async def main() -> None:
        limits = ConnectionLimits(max_connections=8, handshake_timeout_s=300, connect_timeout_s=300)
        with log_lines() as log:
            meshes = [Mesh(index, 3, limits) for index in range(3)]
            addresses = [await mesh.listen() for mesh in meshes]
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                for index in (0, 1):
                    nursery.start_soon(connect, meshes[index], addresses, connected, index)
                async with trio.open_nursery() as strangers:
                    for _ in range(50):
                        strangers.start_soon(saying(b"who is there?"), addresses[0])
                await log.wait_for(50)
                nursery.start_soon(connect, meshes[2], addresses, connected, 2)
            await check_pairs(connected)
        assert len(log.lines) == 50
        assert {line.partition(": ")[2] for line in log.lines} <= {
            NO_PROTOCOL,
            "8 connections are already open",
        }

    trio.run(main)


def test_a_stranger_that_is_still_there_when_all_peers_are_is_put_out() -> None:
    async def main() -> None:
        with log_lines() as log:
            meshes = [Mesh(index, 2, PATIENT) for index in range(2)]
            addresses = [await mesh.listen() for mesh in meshes]
            connected: dict[int, Streams] = {}
            async with await trio.open_tcp_stream(*addresses[0]) as stranger:
                await stranger.send_all(HELLO[:8])
                async with trio.open_nursery() as nursery:
                    for index, mesh in enumerate(meshes):
                        nursery.start_soon(connect, mesh, addresses, connected, index)
                assert await is_closed(stranger)
            await check_pairs(connected)
        assert log.lines == []

    trio.run(main)


async def dial_stranger(answer: bytes, tls: TlsContexts | None = None) -> str:
    """What process 2 says of process 1 when somebody else listens at its address; 0 waits for both."""
    mesh, dialler = Mesh(0, 3, PATIENT, tls=tls), Mesh(2, 3, PATIENT, tls=tls)
    impostor = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    host, port = impostor.socket.getsockname()
    addresses = [await mesh.listen(), (host, port), await dialler.listen()]
    connected: dict[int, Streams] = {}

    async def be_someone_else(stream: trio.SocketStream) -> None:
        await stream.send_all(answer)
        assert await is_closed(stream)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, be_someone_else, [impostor])
        with pytest.raises(HandshakeError) as caught:
            await dialler.connect(addresses, SECRET)
        nursery.cancel_scope.cancel()
    await mesh.aclose()
    assert connected == {}
    assert caught.value.peer == f"task 1 at 127.0.0.1:{port}"
    return caught.value.problem


@pytest.mark.parametrize("answer", [b"220 mail.example.org ESMTP\r\n", HELLO, b"\0"])
def test_a_dialled_process_that_is_none_is_named(answer: bytes) -> None:
    assert trio.run(dial_stranger, answer) == NO_PROTOCOL


def test_a_dialled_process_without_tls_is_named() -> None:
    problem = trio.run(dial_stranger, b"220 mail.example.org ESMTP\r\n", tls_contexts())
    assert problem == "the TLS handshake failed (WRONG_VERSION_NUMBER)"


def test_a_listener_whose_certificate_is_of_another_host_is_not_trusted() -> None:
    async def main() -> None:
        with log_lines() as log:
            mesh = Mesh(0, 2, PATIENT, tls=tls_contexts())
            address = await mesh.listen()
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, mesh, [address] * 2, connected, 0)
                wary = Mesh(1, 2, PATIENT, tls=tls_contexts("other.test"))
                await wary.listen()
                with pytest.raises(
                    HandshakeError, match=r"the TLS handshake failed \(CERTIFICATE_VERIFY_FAILED\)"
                ):
                    await wary.connect([address] * 2, SECRET)
                right = Mesh(1, 2, PATIENT, tls=tls_contexts("netstack.test"))
                await right.listen()
                nursery.start_soon(connect, right, [address] * 2, connected, 1)
            await check_pairs(connected)
        (line,) = log.lines
        assert "the TLS handshake failed (" in line

    trio.run(main)


@pytest.mark.parametrize("bit", [0, 8 * 20, 8 * 30, 8 * 54, 8 * 85 + 7])
def test_a_handshake_that_is_changed_on_its_way_is_refused(bit: int) -> None:
    def flip(start: int, data: bytes) -> bytes:
        index = bit // 8 - start
        if not 0 <= index < len(data):
            return data
        return data[:index] + bytes([data[index] ^ 1 << bit % 8]) + data[index + 1 :]

    async def main() -> None:
        with log_lines() as log:
            mesh, dialler = Mesh(0, 3, PATIENT), Mesh(2, 3, PATIENT)
            address = await mesh.listen()
            with socket.create_server(("127.0.0.1", 0)) as free:
                front = free.getsockname()
            await dialler.listen()
            connected: dict[int, Streams] = {}
            async with trio.open_nursery() as nursery:
                await nursery.start(relay, front, address, flip)
                nursery.start_soon(connect, mesh, [address] * 3, connected, 0)
                with pytest.raises(UnprovenError):
                    await dial(front, SECRET, Identity(2, 0, 3), None)
                await log.wait_for(1)
                assert connected == {}
                nursery.cancel_scope.cancel()
            await dialler.aclose()
        assert len(log.lines) == 1

    trio.run(main)


def test_nothing_that_is_logged_or_raised_has_the_secret() -> None:
    async def main() -> None:
        with log_lines() as log:
            mesh, dialler = Mesh(0, 2, PATIENT), Mesh(1, 2, PATIENT)
            addresses = [await mesh.listen(), await dialler.listen()]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(mesh.connect, addresses, SECRET)
                with pytest.raises(HandshakeError) as caught:
                    await dialler.connect(addresses, WRONG_SECRET)
                await log.wait_for(1)
                nursery.cancel_scope.cancel()
            texts = [*log.lines, repr(caught.value), *(repr(vars(each)) for each in (mesh, dialler))]
        for secret in (b"the secret of the tests", b"a guess at the secret"):
            assert not any(secret.decode() in text or secret.hex() in text for text in texts)

    trio.run(main)
