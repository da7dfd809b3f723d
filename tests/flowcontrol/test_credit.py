"""Counting credit at both ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import CreditAnnouncer, CreditExceeded, CreditLedger, LocalProtocolError


def test_a_ledger_starts_with_the_initial_credit() -> None:
    ledger = CreditLedger(2)
    assert (ledger.initial, ledger.granted, ledger.available, ledger.spent, ledger.revoked) == (2, 2, 2, 0, 0)


def test_initial_credit_is_not_negative() -> None:
    with pytest.raises(LocalProtocolError, match="negative"):
        CreditLedger(-1)


def test_each_data_buffer_costs_one() -> None:
    ledger = CreditLedger(1)
    ledger.grant(2)
    ledger.spend()
    assert (ledger.granted, ledger.available, ledger.spent) == (3, 2, 1)


def test_nothing_is_spent_without_credit() -> None:
    ledger = CreditLedger(0)
    with pytest.raises(LocalProtocolError, match="without credit"):
        ledger.spend()
    assert (ledger.granted, ledger.available, ledger.spent) == (0, 0, 0)


def test_revoked_credit_cannot_be_spent() -> None:
    ledger = CreditLedger(0)
    ledger.grant(3)
    ledger.spend()
    ledger.revoke()
    assert (ledger.granted, ledger.available, ledger.spent, ledger.revoked) == (3, 0, 1, 2)


@given(st.integers(0, 3), st.lists(st.sampled_from(["spend", "revoke"]) | st.integers(1, 4)))
def test_granted_is_spent_available_or_revoked(initial: int, steps: list[str | int]) -> None:
    ledger = CreditLedger(initial)
    spent = 0
    for step in steps:
        if isinstance(step, int):
            ledger.grant(step)
        elif step == "revoke":
            ledger.revoke()
        elif ledger.available:
            ledger.spend()
            spent += 1
        assert ledger.available >= 0
        assert ledger.spent == spent
        assert ledger.granted == ledger.spent + ledger.available + ledger.revoked


def test_gains_merge_into_one_announcement() -> None:
    announcer = CreditAnnouncer(2)
    assert announcer.gain(3)
    assert not announcer.gain(1)
    assert announcer.take() == 4
    assert announcer.outstanding == 6
    assert announcer.take() == 0
    assert announcer.gain(1)


def test_no_gain_needs_no_announcement() -> None:
    announcer = CreditAnnouncer(2)
    assert not announcer.gain(0)
    assert announcer.unannounced == 0


def test_unannounced_credit_does_not_cover_an_arrival() -> None:
    announcer = CreditAnnouncer(0)
    announcer.gain(5)
    with pytest.raises(
        CreditExceeded,
        match=r"^the sender broke the protocol: it sent a data buffer without credit",
    ):
        announcer.receive()
    assert (announcer.outstanding, announcer.unannounced) == (0, 5)


def test_a_receiver_forgets_all_credit() -> None:
    announcer = CreditAnnouncer(0)
    announcer.gain(2)
    announcer.take()
    announcer.gain(3)
    announcer.revoke()
    assert (announcer.outstanding, announcer.unannounced) == (0, 0)


@given(st.integers(0, 3), st.lists(st.sampled_from(["take", "receive", "revoke"]) | st.integers(1, 4)))
def test_announced_is_received_outstanding_or_revoked(initial: int, steps: list[str | int]) -> None:
    announcer = CreditAnnouncer(initial)
    announced, received, revoked = initial, 0, 0
    for step in steps:
        if isinstance(step, int):
            announcer.gain(step)
        elif step == "take":
            announced += announcer.take()
        elif step == "revoke":
            revoked += announcer.outstanding
            announcer.revoke()
        elif announcer.outstanding:
            announcer.receive()
            received += 1
        assert announcer.unannounced >= 0
        assert announcer.outstanding >= 0
        assert announced == received + announcer.outstanding + revoked
