"""Callbacks that wait on the agenda in a way of their own: they can be cancelled, or outlive all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Timer:
    """A callback that waits on the agenda and can be cancelled."""

    __slots__ = ("_args", "_callback")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback: Callable[..., Any] | None = callback
        self._args = args

    @property
    def pending(self) -> bool:
        """Whether the callback is still to be called."""
        return self._callback is not None

    def cancel(self) -> None:
        """Do not call it, and let go of what it was to be called with; nothing if it has been called."""
        self._callback, self._args = None, ()

    def __call__(self) -> None:
        """It is due."""
        callback, args = self._callback, self._args
        if callback is not None:
            self.cancel()
            callback(*args)


class Kept:
    """A callback that outlives `Agenda.clear`."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[..., Any]) -> None:
        self._callback = callback

    def __call__(self, *args: Any) -> None:
        """It is due."""
        self._callback(*args)
