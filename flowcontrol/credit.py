"""Credit at both ends of a channel, counted in buffers.

One credit lets the sender put one data buffer on the wire; events need no credit. A round trip::

    receiver                                     sender
    has 2 exclusive buffers --- initial 2 ---->  available 2
                           <--- data, backlog 3  available 1, and 3 more wait
    takes 3 floating buffers --- AddCredit 3 ->  available 4
    recycles the first one --- AddCredit 1 --->  available 5

Both classes only count; `buffers` manages the buffers themselves.
"""

from __future__ import annotations

from .errors import CreditExceeded, LocalProtocolError

__all__ = ["CreditAnnouncer", "CreditLedger"]


class CreditLedger:
    """Credit on the sender's side: the total granted and the credit that is left.

    Invariant: ``granted == spent + available + revoked`` and ``available >= 0``, in buffers. The counters
    correspond to those of Flink's CreditBasedSequenceNumberingViewReader.
    """

    __slots__ = ("available", "granted", "initial", "revoked")

    def __init__(self, initial: int) -> None:
        if initial < 0:
            raise LocalProtocolError(f"initial credit must not be negative, got {initial}")
        self.initial = initial
        self.granted = initial
        self.available = initial
        self.revoked = 0

    @property
    def spent(self) -> int:
        """Data buffers sent so far."""
        return self.granted - self.available - self.revoked

    def grant(self, credit: int) -> None:
        """Add `credit` buffers that the receiver has announced."""
        self.granted += credit
        self.available += credit

    def spend(self) -> None:
        """Take one credit for a data buffer.

        Raises:
            LocalProtocolError: if no credit is left. The ledger is unchanged.
        """
        if self.available <= 0:
            raise LocalProtocolError("a data buffer was about to be sent without credit for it")
        self.available -= 1

    def revoke(self) -> None:
        """Drop the unspent credit because the receiver has released its buffers."""
        self.revoked += self.available
        self.available = 0


class CreditAnnouncer:
    """Credit on the receiver's side: buffers not yet announced, and credit that the sender may still use.

    Invariant: ``announced == received + outstanding + revoked`` and ``unannounced >= 0``, in buffers.
    Several gained buffers share one AddCredit. `gain` returns whether to queue an AddCredit. When it is
    written, `take` returns all `unannounced` credit and resets it to 0 (Flink's RemoteInputChannel).
    """

    __slots__ = ("initial", "outstanding", "unannounced")

    def __init__(self, initial: int) -> None:
        self.initial = initial
        self.outstanding = initial
        self.unannounced = 0

    def gain(self, buffers: int) -> bool:
        """Count newly freed `buffers`; returns True if an AddCredit has to be queued for them."""
        rises_from_zero = self.unannounced == 0 and buffers > 0
        self.unannounced += buffers
        return rises_from_zero

    def take(self) -> int:
        """Return all unannounced credit; it then counts as announced."""
        credit = self.unannounced
        self.unannounced = 0
        self.outstanding += credit
        return credit

    def receive(self) -> None:
        """Count a data buffer that has arrived.

        Raises:
            CreditExceeded: if the sender had no credit left. The counts are unchanged.
        """
        if self.outstanding <= 0:
            raise CreditExceeded("the sender broke the protocol: it sent a data buffer without credit")
        self.outstanding -= 1

    def revoke(self) -> None:
        """Drop all credit, as a channel without exclusive buffers does when it resumes."""
        self.unannounced = 0
        self.outstanding = 0
