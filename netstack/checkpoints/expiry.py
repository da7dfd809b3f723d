"""One timer for all pending checkpoints: it goes off when the first of them expires."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..engine.agenda import Agenda
from ..engine.callbacks import Timer
from .pending_checkpoint import Checkpoint


class Expiry:
    """Tells `expired` of each of the checkpoints in `pending`, oldest first, that `timeout_s` is over.

    `watch` has to be called when one is added; those that end meanwhile need not be told.
    """

    def __init__(
        self,
        agenda: Agenda,
        timeout_s: float,
        pending: Callable[[], Iterable[Checkpoint]],
        expired: Callable[[Checkpoint], None],
    ) -> None:
        self._agenda, self._timeout_s = agenda, timeout_s
        self._pending, self._expired = pending, expired
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Have a timer, if there is something to wait for."""
        if self._timer is None and (first := next(iter(self._pending()), None)) is not None:
            self._timer = self._agenda.cancellable_at(self._deadline(first), self._expire)

    def change(self, timeout_s: float) -> None:
        """Let checkpoints expire later or sooner, those that go on too."""
        self.stop()
        self._timeout_s = timeout_s
        self.watch()

    def stop(self) -> None:
        """Wait for none of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deadline(self, checkpoint: Checkpoint) -> float:
        return checkpoint.triggered_at + self._timeout_s

    def _expire(self) -> None:
        self._timer = None
        for checkpoint in list(self._pending()):
            # One that expires may take others with it.
            if checkpoint in self._pending() and self._deadline(checkpoint) <= self._agenda.now:
                self._expired(checkpoint)
        self.watch()
