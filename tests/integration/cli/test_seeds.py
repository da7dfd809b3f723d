import signal
import socket
import threading

import pytest

from integration.seed_runs import ctrl_c_held


def interrupted_while_held(done: list[str], thread: threading.Thread, heard: socket.socket | None) -> None:
    assert thread.ident is not None
    with ctrl_c_held():
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
