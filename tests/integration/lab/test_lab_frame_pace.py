"""When the lab makes frames: often where there is time for them, and never at the cost of the emulation."""

import pytest

from integration.lab.server import FRAMES_PER_S, LONGEST_S, SHARE_OF_FRAMES, FramePace


class Clocks:
    """The wall, and a processor of which the process gets a share."""

    def __init__(self, share: float) -> None:
        self.wall = self.cpu = 0.0
        self._share = share

    def work(self, cpu_s: float) -> None:
        self.cpu += cpu_s
        self.wall += cpu_s / self._share


def shares(share: float, frame_s: float, *, turns: int = 2000) -> tuple[float, float]:
    """What part of its processor time a busy lab spends on frames, and how many it makes a second."""
    clocks = Clocks(share)
    pace = FramePace(lambda: clocks.wall, lambda: clocks.cpu)
    frames = 0
    for _ in range(turns):
        clocks.work(0.01)
        if pace.is_due(busy=True):
            clocks.work(frame_s)
            pace.took(frame_s)
            frames += 1
    return frames * frame_s / clocks.cpu, frames / clocks.wall


def test_cheap_frames_come_as_often_as_a_page_shows_them() -> None:
    share, per_s = shares(1.0, 0.002)
    assert per_s == pytest.approx(FRAMES_PER_S, rel=0.2)
    assert share < 0.05


@pytest.mark.parametrize("frame_s", [0.02, 0.1])
def test_costly_frames_leave_the_emulation_its_share(frame_s: float) -> None:
    share, per_s = shares(1.0, frame_s)
    assert share <= SHARE_OF_FRAMES + 0.01
    assert per_s >= 0.9 * SHARE_OF_FRAMES / (frame_s + 0.02)


def test_on_a_machine_with_much_else_to_do_frames_come_seldom() -> None:
    share, per_s = shares(0.1, 0.004)
    assert share <= SHARE_OF_FRAMES + 0.01
    assert per_s >= 1 / LONGEST_S - 0.1


def test_a_lab_that_keeps_its_pace_makes_all_frames() -> None:
    clocks = Clocks(1.0)
    pace = FramePace(lambda: clocks.wall, lambda: clocks.cpu)
    pace.took(0.1)
    assert not pace.is_due(busy=False)
    clocks.wall += 1.01 / FRAMES_PER_S
    assert pace.is_due(busy=False)
    assert not pace.is_due(busy=True)
