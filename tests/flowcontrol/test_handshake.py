"""The handshake of a connection: peers with the secret get in, and all others are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    ClientHandshake,
    Handshake,
    HandshakeRefused,
    Identity,
    LocalProtocolError,
    RemoteProtocolError,
    Secret,
    ServerHandshake,
)

KEY = b"the key of a job"
SECRET = Secret(KEY)
DIALLER_NONCE, LISTENER_NONCE = bytes(range(32)), bytes(range(100, 132))
HELLO, CHALLENGE, PROOF = 54, 42, 32


def client(secret: Secret = SECRET, nonce: bytes = DIALLER_NONCE, dialler: int = 2) -> ClientHandshake:
    return ClientHandshake(secret, Identity(dialler, 1, 4), nonce)


def server(secret: Secret = SECRET, nonce: bytes = LISTENER_NONCE) -> ServerHandshake:
    return ServerHandshake(secret, 1, 4, nonce)


@dataclass
class Transcript:
    """Messages that both ends have sent, in order."""

    of_client: list[bytes] = field(default_factory=list)
    of_server: list[bytes] = field(default_factory=list)


def shake(one: ClientHandshake, other: ServerHandshake) -> Transcript:
    """Exchange messages until neither end has one to send."""
    transcript = Transcript()
    data = one.begin()
    while data:
        transcript.of_client.append(data)
        answer = other.receive(data)
        transcript.of_server.append(answer)
        data = one.receive(answer)
    return transcript


def transcript() -> Transcript:
    return shake(client(), server())


def play(machine: Handshake, data: bytes, cuts: list[int]) -> tuple[bytes, str, int]:
    """What a machine answers to `data` in pieces, how it refuses it, and how much of it it has taken."""
    sent = machine.begin()
    taken = 0
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        piece = data[start:end]
        while piece and machine.wanted:
            part, piece = piece[: machine.wanted], piece[machine.wanted :]
            try:
                sent += machine.receive(part)
            except HandshakeRefused as refusal:
                return sent, str(refusal), 0
            taken += len(part)
    return sent, "", taken


def first_refused(machine: Handshake, data: bytes) -> int | None:
    """The index of the byte at which `machine` refuses `data`, fed byte by byte; None if it does not."""
    machine.begin()
    for index in range(len(data)):
        try:
            machine.receive(data[index : index + 1])
        except HandshakeRefused:
            return index
    return None


def test_both_ends_prove_themselves() -> None:
    one, other = client(), server()
    said = shake(one, other)

    assert (one.proven, other.proven) == (True, True)
    assert other.identity == one.identity == Identity(2, 1, 4)
    assert [len(data) for data in said.of_client] == [HELLO, PROOF]
    assert [len(data) for data in said.of_server] == [CHALLENGE, PROOF]
    assert (one.wanted, other.wanted) == (0, 0)


def test_the_bytes_of_a_handshake() -> None:
    """Computed by hand from the description, with another implementation of HMAC (OpenSSL's)."""
    said = transcript()
    hello = b"netsdial" + bytes.fromhex("0001 00000004 00000001 00000002") + DIALLER_NONCE
    challenge = b"netshear" + bytes.fromhex("0001") + LISTENER_NONCE
    assert said.of_client[0] == hello
    assert said.of_server[0] == challenge
    assert said.of_client[1].hex() == "62587fc9ab87847df8cfdb40ef71eb2496ea4a90f8e6111c66d10800a47f234b"
    assert said.of_server[1].hex() == "432b7fc299358328c11021617bfdec0866455d1b18b2d67e61967a1ddd839402"


def test_nothing_is_proven_before_all_is_right() -> None:
    said = transcript()
    one, other = client(), server()
    one.begin()
    for machine, messages in ((one, said.of_server), (other, said.of_client)):
        stream = b"".join(messages)
        for index in range(len(stream)):
            assert not machine.proven
            assert machine is one or other.identity is None
            machine.receive(stream[index : index + 1])
        assert machine.proven


def test_the_listener_proves_nothing_before_the_dialler_has() -> None:
    said = transcript()
    other = server()
    answers = [other.receive(said.of_client[0])]
    answers += [other.receive(bytes([byte])) for byte in said.of_client[1]]

    assert answers == [said.of_server[0], *[b""] * (PROOF - 1), said.of_server[1]]


@pytest.mark.parametrize("end", ["client", "server"])
def test_every_flipped_bit_is_refused(end: str) -> None:
    said = transcript()
    stream = b"".join(said.of_server if end == "client" else said.of_client)
    for bit in range(8 * len(stream)):
        machine = client() if end == "client" else server()
        damaged = bytearray(stream)
        damaged[bit // 8] ^= 1 << bit % 8
        assert first_refused(machine, bytes(damaged)) is not None
        assert not machine.proven


def test_a_wrong_byte_is_refused_as_soon_as_it_is_there() -> None:
    """All but nonces, indices within the mesh and proofs is known in advance."""
    said = transcript()
    rows: list[tuple[Callable[[], Handshake], bytes, range]] = [
        (server, b"".join(said.of_client), range(18)),
        (client, b"".join(said.of_server), range(10)),
    ]
    for machine, stream, known in rows:
        for index in known:
            damaged = bytearray(stream)
            damaged[index] ^= 0x80
            assert first_refused(machine(), bytes(damaged)) == index
        damaged = bytearray(stream)
        damaged[len(stream) - PROOF] ^= 1
        assert first_refused(machine(), bytes(damaged)) == len(stream) - 1


@pytest.mark.parametrize(
    ("index", "size", "refused_at"),
    [(0, 4, 21), (1, 4, 21), (4, 4, 21), (255, 4, 21), (256, 4, 20), (2**31, 4, 18), (300, 600, None)],
)
def test_an_index_that_cannot_dial_is_refused_at_its_first_impossible_byte(
    index: int, size: int, refused_at: int | None
) -> None:
    hello = client().begin()
    forged = hello[:10] + size.to_bytes(4) + hello[14:18] + index.to_bytes(4) + hello[22:]
    assert first_refused(ServerHandshake(SECRET, 1, size, LISTENER_NONCE), forged) == refused_at


@pytest.mark.parametrize(
    ("offset", "value", "problem"),
    [
        (0, b"GET / HT", "does not speak netstack's protocol"),
        (8, b"\0\2", "speaks another version of the handshake; this process speaks version 1"),
        (10, b"\0\0\0\5", "belongs to a mesh of another size; this mesh has 4 processes"),
        (14, b"\0\0\0\2", "wants to reach another process; this is process 1"),
        (18, b"\0\0\0\1", "'s index is wrong: only processes with higher"),
    ],
)
def test_the_listener_says_what_is_wrong_with_a_hello(offset: int, value: bytes, problem: str) -> None:
    hello = client().begin()
    with pytest.raises(HandshakeRefused, match=f"the peer.*{problem}"):
        server().receive(hello[:offset] + value + hello[offset + len(value) :])


@pytest.mark.parametrize(
    ("offset", "value", "problem"),
    [
        (0, b"HTTP/1.1", "does not speak netstack's protocol"),
        (0, b"netsdial", "does not speak netstack's protocol"),
        (8, b"\0\2", "speaks another version of the handshake; this process speaks version 1"),
    ],
)
def test_the_dialler_says_what_is_wrong_with_a_challenge(offset: int, value: bytes, problem: str) -> None:
    challenge = transcript().of_server[0]
    one = client()
    one.begin()
    with pytest.raises(HandshakeRefused, match=f"the peer.*{problem}"):
        one.receive(challenge[:offset] + value + challenge[offset + len(value) :])


def test_another_secret_is_refused_by_both_ends() -> None:
    stranger = Secret(b"another key of a job")
    with pytest.raises(HandshakeRefused, match="did not prove that it knows the secret"):
        shake(client(stranger), server())

    one, impostor = client(), server(stranger)
    hello = one.begin()
    one.receive(impostor.receive(hello))
    proof = stranger.sign(b"netstack handshake: listener" + hello + transcript().of_server[0])
    with pytest.raises(HandshakeRefused, match="did not prove that it knows the secret"):
        one.receive(proof)
    assert not one.proven


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_a_replayed_transcript_proves_nothing(own_nonce: bytes, other_nonce: bytes) -> None:
    said = transcript()
    if other_nonce != LISTENER_NONCE:
        other = server(nonce=other_nonce)
        assert first_refused(other, b"".join(said.of_client)) == HELLO + PROOF - 1
        assert not other.proven
    if own_nonce != DIALLER_NONCE:
        one = client(nonce=own_nonce)
        assert first_refused(one, b"".join(said.of_server)) == CHALLENGE + PROOF - 1
        assert not one.proven


def test_a_reflected_transcript_proves_nothing() -> None:
    """A peer that sends back what it got, and one that sends back only the proof."""
    one = client()
    assert first_refused(one, one.begin()) == 4

    one, other = client(), server()
    proof = one.receive(other.receive(one.begin()))
    with pytest.raises(HandshakeRefused, match="did not prove"):
        one.receive(proof)

    said = transcript()
    other = server()
    other.receive(said.of_client[0])
    with pytest.raises(HandshakeRefused, match="did not prove"):
        other.receive(said.of_server[1])


def test_a_proof_is_for_one_pair_only() -> None:
    """An attacker between two processes cannot present one as another."""
    one, other = client(dialler=3), server()
    proof = one.receive(other.receive(client(dialler=2).begin()))
    with pytest.raises(HandshakeRefused, match="did not prove"):
        other.receive(proof)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", client().begin() + bytes(PROOF)])
def test_a_refusal_is_final(data: bytes) -> None:
    other = server()
    sent, refusal, _ = play(other, data, [])
    assert refusal
    assert other.wanted == 0
    for right in (client().begin(), transcript().of_client[1], b""):
        with pytest.raises(HandshakeRefused, match=refusal):
            other.receive(right)
    assert sent == (b"" if data.startswith(b"GET") else transcript().of_server[0])
    assert not other.proven
    assert issubclass(HandshakeRefused, RemoteProtocolError)


def test_more_than_is_wanted_is_the_callers_fault_and_changes_nothing() -> None:
    other = server()
    hello = client().begin()
    with pytest.raises(LocalProtocolError, match="got 55 bytes, but the handshake expects at most 54"):
        other.receive(hello + b"x")
    assert other.receive(hello) == transcript().of_server[0]

    proven = server()
    shake(client(), proven)
    with pytest.raises(LocalProtocolError, match="got 1 bytes, but the handshake expects at most 0"):
        proven.receive(b"x")
    assert proven.proven


def test_what_it_means_that_the_peer_leaves() -> None:
    one, other = client(), server()
    assert other.left == "the peer disconnected before it had proven that it knows the secret"
    assert one.left == "the peer disconnected without an answer"
    one.receive(other.receive(one.begin()))
    assert other.left == "the peer disconnected before it had proven that it knows the secret"
    assert one.left == "the peer disconnected without an answer"


def test_only_a_proof_is_refused_in_words() -> None:
    one, other = client(), server()
    assert (one.refusal, other.refusal) == (b"", b"")
    one.receive(other.receive(one.begin()))
    with pytest.raises(HandshakeRefused):
        other.receive(bytes(32))
    with pytest.raises(
        HandshakeRefused,
        match="the peer rejected this process: the peer has another secret, or is already connected to this "
        "process",
    ):
        one.receive(other.refusal)
    assert (one.proven, one.refusal) == (False, b"")


@given(st.binary(min_size=16, max_size=64))
def test_a_secret_is_never_shown(key: bytes) -> None:
    secret = Secret(key)
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", "%s" % secret} == {"Secret(hidden)"}  # noqa: UP031
    assert repr([secret]) == "[Secret(hidden)]"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_can_be_pickled(protocol: int) -> None:
    copy = pickle.loads(pickle.dumps(SECRET, protocol))
    assert copy.sign(b"x") == SECRET.sign(b"x") != Secret(KEY + b"x").sign(b"x")


def test_a_short_secret_is_no_secret() -> None:
    with pytest.raises(
        ValueError, match="a secret must have at least 16 bytes, but this one has 15"
    ) as caught:
        Secret(KEY[:15])
    assert "the key" not in str(caught.value)
    with pytest.raises(TypeError, match="a secret must be bytes, but this one is of type str"):
        Secret("sixteen letters.")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dialler", "listener", "size"), [(1, 1, 2), (0, 1, 2), (2, 1, 2), (1, -1, 2), (2**32 - 1, 0, 2**32)]
)
def test_an_identity_is_a_pair_of_the_mesh(dialler: int, listener: int, size: int) -> None:
    with pytest.raises(
        ValueError,
        match=f"in a mesh of {size} processes, process {dialler} cannot connect to process {listener}: "
        "connections go from higher to lower numbers",
    ):
        Identity(dialler, listener, size)


def test_the_last_process_is_dialled_by_nobody() -> None:
    with pytest.raises(ValueError, match=": connections go from higher to lower numbers"):
        ServerHandshake(SECRET, 3, 4, LISTENER_NONCE)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_nonce_has_32_bytes(size: int) -> None:
    for make in (client, server):
        with pytest.raises(ValueError, match=f"a nonce must have 32 bytes, but this one has {size}"):
            make(nonce=bytes(size))
