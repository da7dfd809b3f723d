import signal
import threading

import pytest

from integration.runs.scenario_runs import ctrl_c_held


def interrupted_while_held(done: list[str]) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with ctrl_c_held():
        signal.pthread_kill(main, signal.SIGINT)
        done.append("started")


def test_ctrl_c_waits_until_the_processes_have_been_started():
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_held(done)
    assert done == ["started"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
