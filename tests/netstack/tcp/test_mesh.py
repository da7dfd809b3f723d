"""One proven connection for each pair of processes: those that belong together find each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import count

import pytest
import trio
import trio.testing

from flowcontrol import Identity, Secret, ServerHandshake
from netstack.errors import HandshakeError
from netstack.tcp.handshaking import TlsContexts, dial, fresh_nonce, fresh_secret, is_own_end
from netstack.tcp.mesh import Mesh
from netstack.tcp.pipe import ConnectionLimits
from tests.crossing import crossed
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


@pytest.fixture(autouse=True)
def _no_socket_left() -> Iterator[None]:
    with no_socket_left():
        yield


async def connected_mesh(size: int, tls: TlsContexts | None = None) -> dict[int, Streams]:
    meshes = [Mesh(index, size, PATIENT, tls=tls) for index in range(size)]
    addresses = [await mesh.listen() for mesh in meshes]
    connected: dict[int, Streams] = {}
    async with trio.open_nursery() as nursery:
        for index, mesh in enumerate(meshes):
            nursery.start_soon(connect, mesh, addresses, connected, index)
    return connected


async def is_refused(address: Address) -> bool:
    try:
        stream = await trio.open_tcp_stream(*address)
    except OSError:
        return True
    await stream.aclose()
    return False


def raw(stream: object) -> trio.SocketStream:
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    assert isinstance(transport, trio.SocketStream)
    return transport


@crossed(encrypted={"plain": False, "tls": True}, size=[1, 2, 5, 16])
def test_each_pair_has_one_connection(size: int, encrypted: bool) -> None:
    async def main() -> None:
        connected = await connected_mesh(size, tls_contexts() if encrypted else None)
        ends = {
            (index, peer): (raw(stream).socket.getsockname(), raw(stream).socket.getpeername())
            for index, streams in connected.items()
            for peer, stream in streams.items()
        }
        assert all(ends[peer, index] == (there, here) for (index, peer), (here, there) in ends.items())
        await check_pairs(connected)

    with log_lines() as log:
        trio.run(main)
    assert log.lines == []


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_small_messages_leave_at_once(encrypted: bool) -> None:
    async def main() -> None:
        connected = await connected_mesh(3, tls_contexts() if encrypted else None)
        for streams in connected.values():
            for stream in streams.values():
                assert raw(stream).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await close(connected)

    trio.run(main)


def test_what_is_sent_right_behind_the_handshake_is_not_lost() -> None:
    """The dialler may send as soon as it is connected, before the listener has found out that it is."""

    async def main() -> None:
        mesh = Mesh(0, 3, PATIENT)
        address = await mesh.listen()
        connected: dict[int, Streams] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect, mesh, [address] * 3, connected, 0)
            streams = {}
            for index in (1, 2):
                streams[index] = await dial(address, SECRET, Identity(index, 0, 3), None)
                await streams[index].send_all(b"first")
        for index in (1, 2):
            assert await connected[0][index].receive_some(100) == b"first"
            await streams[index].aclose()
        await close(connected)

    trio.run(main)


def test_the_listener_closes_when_the_last_dialler_is_connected() -> None:
    """Before all pairs of the process are: the last one has nobody to wait for."""

    async def main() -> None:
        meshes = [Mesh(index, 3, PATIENT) for index in range(3)]
        addresses = [await mesh.listen() for mesh in meshes]
        connected: dict[int, Streams] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect, meshes[1], addresses, connected, 1)
            nursery.start_soon(connect, meshes[2], addresses, connected, 2)
            while not await is_refused(addresses[2]):
                await trio.lowlevel.checkpoint()
            while not await is_refused(addresses[1]):
                await trio.lowlevel.checkpoint()
            assert connected == {}
            assert not await is_refused(addresses[0])
            nursery.start_soon(connect, meshes[0], addresses, connected, 0)
        assert [await is_refused(address) for address in addresses] == [True] * 3
        await check_pairs(connected)

    trio.run(main)


def test_it_listens_at_loopback_unless_told_otherwise() -> None:
    async def main() -> None:
        async with Mesh(0, 2) as mesh:
            host, port = await mesh.listen()
            assert host == "127.0.0.1"
            assert port > 0
        async with Mesh(0, 2, host="127.0.0.2") as mesh:
            host, port = await mesh.listen()
            assert host == "127.0.0.2"
            assert await is_refused(("127.0.0.1", port))

    trio.run(main)


def test_a_host_that_is_not_of_this_machine_is_named() -> None:
    async def main() -> None:
        async with Mesh(0, 2, host="192.0.2.1") as mesh:
            with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1: Cannot assign"):
                await mesh.listen()

    trio.run(main)


def test_a_peer_that_listens_late_is_dialled_again() -> None:
    """At its address nobody listens at first, then a relay does."""

    async def main() -> None:
        early, late = Mesh(1, 2, PATIENT), Mesh(0, 2, PATIENT)
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()
        addresses = [address, await early.listen()]
        connected: dict[int, Streams] = {}
        async with trio.open_nursery() as relays:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, early, addresses, connected, 1)
                await trio.testing.wait_all_tasks_blocked()
                assert connected == {}
                relays.start_soon(relay, address, await late.listen())
                nursery.start_soon(connect, late, addresses, connected, 0)
            assert raw(connected[1][0]).socket.getpeername() == address
            await check_pairs(connected)
            relays.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.parametrize("challenged", [False, True], ids=["before", "behind the challenge"])
def test_a_listener_that_puts_a_dialler_out_for_want_of_room_is_dialled_again(challenged: bool) -> None:
    """It closes the connection without an answer, or without a proof, as one does that strangers besiege."""

    async def main() -> None:
        meshes = [Mesh(index, 2, PATIENT) for index in range(2)]
        addresses = [await mesh.listen() for mesh in meshes]
        busy = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        front = busy.socket.getsockname()
        connected: dict[int, Streams] = {}
        async with trio.open_nursery() as relays:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect, meshes[1], [front, addresses[1]], connected, 1)
                for _ in range(2):
                    stream = await busy.accept()
                    if challenged:
                        hello = await stream.receive_some(54)
                        await stream.send_all(
                            ServerHandshake(SECRET, 0, 2, fresh_nonce()).receive(bytes(hello))
                        )
                        await stream.receive_some(32)
                    await stream.aclose()
                await busy.aclose()
                relays.start_soon(relay, front, addresses[0])
                nursery.start_soon(connect, meshes[0], addresses, connected, 0)
            await check_pairs(connected)
            relays.cancel_scope.cancel()

    trio.run(main)


def test_a_connection_to_itself_is_no_listener() -> None:
    async def main() -> None:
        own = trio.socket.socket()
        await own.bind(("127.0.0.1", 0))
        await own.connect(own.getsockname())
        async with trio.SocketStream(own) as stream:
            assert is_own_end(stream)
        connected = await connected_mesh(2)
        assert not is_own_end(raw(connected[0][1]))
        await close(connected)
        assert not is_own_end(raw(connected[0][1]))

    trio.run(main)


@pytest.mark.parametrize(
    ("index", "problem"),
    [(0, "1: has not connected"), (1, "0: Connection refused")],
    ids=["dialled", "dialling"],
)
def test_a_peer_that_never_comes_is_named(index: int, problem: str) -> None:
    async def main() -> None:
        mesh = Mesh(index, 2, ConnectionLimits(connect_timeout_s=0.2))
        with socket.create_server(("127.0.0.1", 0)) as free:
            absent = free.getsockname()
        addresses = [absent, absent]
        addresses[index] = await mesh.listen()
        with pytest.raises(HandshakeError) as caught:
            await mesh.connect(addresses, SECRET)
        assert str(caught.value) == (
            f"task {1 - index} at 127.0.0.1:{absent[1]}: could not be connected within 0.2 s ({problem})"
        )
        assert await is_refused(addresses[index])

    trio.run(main)


def test_a_peer_that_listens_and_never_answers_is_named() -> None:
    async def main() -> None:
        silent, mesh = (Mesh(index, 2, ConnectionLimits(connect_timeout_s=0.2)) for index in range(2))
        addresses = [await silent.listen(), await mesh.listen()]
        with pytest.raises(
            HandshakeError, match=r"could not be connected within 0\.2 s \(0: has not answered\)"
        ):
            await mesh.connect(addresses, SECRET)
        await silent.aclose()

    trio.run(main)


def test_all_that_are_missing_are_named_and_those_that_came_are_let_go() -> None:
    async def main() -> None:
        limits = ConnectionLimits(connect_timeout_s=2)
        meshes = [Mesh(index, 5, limits) for index in range(5)]
        addresses = [await mesh.listen() for mesh in meshes]
        names = [f"task {index} at 127.0.0.1:{port}" for index, (_, port) in enumerate(addresses)]
        problems = {}

        async def miss(index: int) -> None:
            with pytest.raises(HandshakeError) as caught:
                await meshes[index].connect(addresses, SECRET)
            assert caught.value.peer == f"{names[2]}, {names[4]}"
            problems[index] = caught.value.problem

        await meshes[2].aclose()
        async with trio.open_nursery() as nursery:
            for index in (0, 1, 3):
                nursery.start_soon(miss, index)
        assert problems == {
            0: "could not be connected within 2 s (2: has not connected, 4: has not connected)",
            1: "could not be connected within 2 s (2: has not connected, 4: has not connected)",
            3: "could not be connected within 2 s (2: Connection refused, 4: has not connected)",
        }
        await meshes[4].aclose()

    trio.run(main)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_whenever_it_is_cancelled_no_socket_is_left(encrypted: bool) -> None:
    tls = tls_contexts() if encrypted else None

    async def main(steps: int) -> int:
        meshes = [Mesh(index, 3, PATIENT, tls=tls) for index in range(3)]
        connected: dict[int, Streams] = {}
        before = open_files()
        addresses = [await mesh.listen() for mesh in meshes]
        async with trio.open_nursery() as nursery:
            for index, mesh in enumerate(meshes):
                nursery.start_soon(connect, mesh, addresses, connected, index)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await close(connected)
        assert open_files() == before
        return len(connected)

    assert trio.run(main, 0) == 0
    assert next(steps for steps in count(1) if trio.run(main, steps) == 3) > 10


def test_a_mesh_that_only_listened_can_be_closed() -> None:
    async def main() -> None:
        mesh = Mesh(0, 2)
        await mesh.aclose()
        address = await mesh.listen()
        again = await mesh.listen()
        assert await is_refused(address)
        await mesh.aclose()
        await mesh.aclose()
        assert await is_refused(again)

    trio.run(main)


def test_it_listens_before_it_connects_and_knows_all_addresses() -> None:
    async def main() -> None:
        async with Mesh(0, 2) as mesh:
            with pytest.raises(RuntimeError, match="a mesh must listen before it connects"):
                await mesh.connect([("127.0.0.1", 1)] * 2, SECRET)
            await mesh.listen()
            with pytest.raises(ValueError, match="3 addresses for 2 processes"):
                await mesh.connect([("127.0.0.1", 1)] * 3, SECRET)

    trio.run(main)


def test_a_mesh_that_cannot_be() -> None:
    for index, size in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ValueError, match=f"process {index} does not exist among {size} processes"):
            Mesh(index, size)
    with pytest.raises(ValueError, match="the host to listen on must not be empty"):
        Mesh(0, 2, host="")
    few = ConnectionLimits(max_connections=2)
    with pytest.raises(ValueError, match="3 processes connect to process 0, but max_connections is 2"):
        Mesh(0, 4, few)
    Mesh(1, 4, few)


def test_secrets_and_nonces_are_new_each_time() -> None:
    assert len({fresh_secret().sign(b"") for _ in range(10)}) == 10
    assert {len(nonce) for nonce in {fresh_nonce() for _ in range(10)}} == {32}
    assert isinstance(fresh_secret(), Secret)
