"""The page of the lab in a real browser: what moves, what a user does, what comes back."""

import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netstack import read_scenario

ROOT = Path(__file__).parents[2]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE_S = 30

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not installed"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "integration", "lab", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as lab:
        try:
            assert lab.stdout is not None
            yield lab.stdout.readline().strip()
        finally:
            lab.send_signal(signal.SIGINT)
            _, told = lab.communicate(timeout=PATIENCE_S)
    assert lab.returncode == 130
    assert "Traceback" not in told


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1200,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.get(address)
        yield driver
    finally:
        driver.quit()


def find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def wait(browser: Any, condition: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE_S, poll_frequency=0.05).until(condition)


def seconds(browser: Any) -> float:
    """The emulated time that the page shows."""
    found = re.match(r"[\d.,]+", find(browser, "#time").text)
    return float(found[0].replace(",", "")) if found else 0.0


def choose(browser: Any, selector: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(find(browser, selector)).select_by_value(value)


def enter(browser: Any, key: str, vertex: str, value: str) -> None:
    control = find(browser, f'[data-control="{key}"][data-vertex="{vertex}"]')
    control.clear()
    control.send_keys(value + "\n")


def incidents(browser: Any) -> str:
    return str(find(browser, "#incidents").text)


def test_a_job_runs_and_does_what_a_user_wants(browser: Any) -> None:
    wait(browser, lambda page: seconds(page) > 0)
    choose(browser, "#pace", "fastest")
    wait(browser, lambda page: page.find_elements("css selector", "#checkpoints [data-checkpoint]"))
    enter(browser, "service", "sink", "1 ms")
    wait(browser, lambda page: "sink: service is 1 ms" in incidents(page))
    find(browser, '[data-control="taskmanager.network.memory.buffer-debloat.enabled"]').click()
    wait(browser, lambda page: "buffer-debloat.enabled is True" in incidents(page))
    find(browser, "#kill-subtask").click()
    wait(browser, lambda page: "restarts from checkpoint" in incidents(page))


def test_two_sides_stand_beside_each_other_and_one_is_kept(browser: Any) -> None:
    choose(browser, "#pace", "1")
    find(browser, "#fork").click()
    wait(browser, lambda page: len(page.find_elements("css selector", "#sides > [data-side]")) == 2)
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "running")
    enter(browser, "service", "map", "2 ms")
    wait(browser, lambda page: "map: service is 2 ms" in incidents(page))
    assert find(browser, "#incidents li[data-side=b]")
    find(browser, "#keep-b").click()
    wait(browser, lambda page: len(page.find_elements("css selector", "#sides > [data-side]")) == 1)


def test_what_was_done_is_copied_as_a_scenario(browser: Any) -> None:
    find(browser, "#copy").click()
    toml = wait(browser, lambda page: find(page, "#toml").get_property("value") or find(page, "#toml").text)
    document = tomllib.loads(toml)
    assert [change.get("vertex") for change in document["changes"]] == ["sink", None, "map"]
    assert len(read_scenario(document).faults) == 1
    find(browser, "#close-copied").click()


def test_a_pause_and_a_step_are_seen(browser: Any) -> None:
    find(browser, "#pause").click()
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "paused")
    before = seconds(browser)
    choose(browser, "#step-size", "1")
    find(browser, "#step").click()
    wait(browser, lambda page: seconds(page) == pytest.approx(before + 1, abs=0.002))


def test_what_cannot_be_done_is_said(browser: Any) -> None:
    enter(browser, "service", "sink", "soon")
    wait(browser, lambda page: "service" in find(page, "#refused").text)


def test_the_console_has_no_errors(browser: Any) -> None:
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry["message"] for entry in severe if "favicon" not in entry["message"]] == []
