"""Signals that come during short calls, or while processes start, which must not be cut short."""

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from integration.base.signals import held_interrupts, starting_processes
from integration.base.stopping import StopSignals


def interrupted(steps: list[str], error: Exception | None = None) -> None:
    """A block during which Ctrl-C is pressed."""
    with held_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("in the block")
        if error is not None:
            raise error
    steps.append("behind the block")


@pytest.mark.parametrize("error", [None, ValueError("in the block")])
def test_ctrl_c_comes_after_the_block(error: Exception | None) -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(steps, error)
    assert steps == ["in the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_reaches_the_handler_that_was_there() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with held_interrupts(), held_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_leave_handlers_alone() -> None:
    handlers = []

    def work() -> None:
        with held_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def interrupted_while_held(done: list[str], thread: threading.Thread, heard: socket.socket | None) -> None:
    assert thread.ident is not None
    with starting_processes():
        signal.pthread_kill(thread.ident, signal.SIGINT)
        if heard is not None:
            heard.recv(1)  # by now the other thread has taken the signal, and left it to this one
        done.append("started")


def test_ctrl_c_waits_until_the_processes_have_been_started():
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_held(done, threading.main_thread(), None)
    assert done == ["started"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_that_another_thread_takes_waits_too():
    done: list[str] = []
    over = threading.Event()
    another = threading.Thread(target=over.wait, daemon=True)
    another.start()
    heard, tells = socket.socketpair()
    with heard, tells:
        tells.setblocking(False)
        before = signal.set_wakeup_fd(tells.fileno())
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted_while_held(done, another, heard)
        finally:
            signal.set_wakeup_fd(before)
            over.set()
            another.join()
    assert done == ["started"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.fixture
def stop_signals() -> Iterator[StopSignals]:
    """The signal handling of a command at work."""
    signals, numbers = StopSignals(), (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signals.handle) for number in numbers]
    signals.work_begins()
    yield signals
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def signalled_at_the_start(number: signal.Signals, steps: list[str]) -> None:
    with starting_processes():
        signal.raise_signal(number)
        steps.append("started")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_starts_processes_stops_once_they_are_started(
    number: signal.Signals, stop_signals: StopSignals
) -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt) as stopped:
        signalled_at_the_start(number, steps)
    assert steps == ["started"]
    assert stop_signals.end() == 128 + number, stopped  # a `Stopped` that is lost earlier is raised again
