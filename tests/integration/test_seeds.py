import signal
import threading
import time

import pytest

from integration.runs.scenario_runs import ctrl_c_held


def interrupted_while_held(done: list[str], thread: threading.Thread) -> None:
    assert thread.ident is not None
    with ctrl_c_held():
        signal.pthread_kill(thread.ident, signal.SIGINT)
        time.sleep(0)  # Python handles signals between two of its own instructions
        done.append("started")


@pytest.mark.parametrize("main", [True, False], ids=["main thread", "another thread"])
def test_ctrl_c_waits_until_the_processes_have_been_started(main):
    done: list[str] = []
    over = threading.Event()
    another = threading.Thread(target=over.wait)
    another.start()
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_held(done, threading.main_thread() if main else another)
    over.set()
    another.join()
    assert done == ["started"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
