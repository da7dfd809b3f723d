"""Messages that only those who know a secret can write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import SEAL_BYTES, HandshakeRefused, Secret, seal, unseal

SECRET = Secret(b"the secret of the tests")
FOR = b"a purpose"


@given(st.binary(max_size=200))
def test_a_message_comes_out_as_it_went_in(body: bytes) -> None:
    sealed = seal(SECRET, FOR, body)
    assert len(sealed) == SEAL_BYTES + len(body)
    assert unseal(SECRET, FOR, sealed) == body


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(
        HandshakeRefused,
        match="the signature of the message does not match: the sender does not have the secret of this job",
    ):
        unseal(Secret(b"the secret of others"), FOR, seal(SECRET, FOR, b"body"))


def test_another_purpose_opens_nothing() -> None:
    for purpose in (b"", b"a purpos", b"a purposeb", b"another"):
        with pytest.raises(HandshakeRefused):
            unseal(SECRET, purpose, seal(SECRET, FOR, b"body"))


def test_a_seal_is_no_signature_of_the_handshake() -> None:
    assert seal(SECRET, FOR, b"body")[:SEAL_BYTES] != SECRET.sign(b"body")
