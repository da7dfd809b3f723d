"""Signals that come during short calls, which must not be cut short."""

import os
import signal
import threading

import pytest

from integration.spark.driver import held_interrupts


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
