"""The page of the lab in a real browser: what moves, what a user does, what comes back."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netstack import read_scenario
from tests.integration.flink.flink_cluster import NAMES, replayed
from tests.signals import ended_by

ROOT = Path(__file__).parents[3]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE_S = 120

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not installed"
    ),
]


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A lab, and the address of its page."""
    command = [sys.executable, "-m", "integration", "lab", "--no-browser", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as lab:
        try:
            assert lab.stdout is not None
            yield lab.stdout.readline().strip()
        finally:
            _, told = ended_by(lab)
    assert lab.returncode == 130
    assert "Traceback" not in told


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as address:
        yield address


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
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    redrawn = [StaleElementReferenceException]  # between finding an element and reading it
    waiting = WebDriverWait(browser, PATIENCE_S, poll_frequency=0.05, ignored_exceptions=redrawn)
    return waiting.until(condition)


def seconds(browser: Any) -> float:
    """The emulated time that the page shows."""
    found = re.match(r"[\d.,]+", find(browser, "#time").text)
    return float(found[0].replace(",", "")) if found else 0.0


def choose(browser: Any, selector: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(find(browser, selector)).select_by_value(value)


def enter(browser: Any, key: str, vertex: str, value: str) -> None:
    from selenium.webdriver.common.keys import Keys

    control = find(browser, f'[data-control="{key}"][data-vertex="{vertex}"]')
    control.send_keys(Keys.CONTROL, "a")
    control.send_keys(value + "\n")


def incidents(browser: Any) -> str:
    return str(find(browser, "#incidents").text)


def test_a_job_runs_and_does_what_a_user_wants(browser: Any) -> None:
    wait(browser, lambda page: seconds(page) > 0)
    choose(browser, "#pace", "fastest")
    wait(browser, lambda page: page.find_elements("css selector", "#checkpoints [data-checkpoint]"))
    enter(browser, "service", "sink", "1 ms")
    wait(browser, lambda page: "Cost of a record of sink to 1 ms" in incidents(page))
    find(browser, '[data-control="taskmanager.network.memory.buffer-debloat.enabled"]').click()
    wait(browser, lambda page: "Buffer debloating to on" in incidents(page))
    find(browser, "#kill-subtask").click()
    wait(browser, lambda page: "restarts from checkpoint" in incidents(page))


def last_checkpoint(browser: Any, side: str) -> dict[str, str]:
    """The figures of the last checkpoint of a side, as the header shows them."""
    cells = browser.find_elements("css selector", f'#last [data-side="{side}"] [data-figure]')
    return {cell.get_attribute("data-figure"): cell.get_property("textContent") for cell in cells}


def times_of_last(browser: Any, side: str) -> str:
    return last_checkpoint(browser, side)["duration_ms"]


def test_the_latest_values_are_shown_without_pointing_at_them(browser: Any) -> None:
    names = ["duration_ms", "start_delay_ms", "alignment_ms", "sync_ms", "async_ms"]

    def are_times(page: Any) -> bool:
        shown = last_checkpoint(page, "a")
        return list(shown) == names and all(
            re.fullmatch(r"[\d.]+ (µs|ms|s)", text) for text in shown.values()
        )

    wait(browser, are_times)  # the first checkpoint may not be complete yet
    for shown_text in (r"At:?\s*[\d.]+ s \(latest\)", r"source:?\s*[\d.,]+/s"):
        wait(browser, lambda page, text=shown_text: re.search(text, legend_of(page)))


def legend_of(page: Any) -> str:
    return str(find(page, '[data-chart="records_per_s"] .values').text)


_PIXELS_OF_SOURCE = """
const [canvas] = document.querySelectorAll('[data-chart="records_per_s"] canvas');
const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let found = 0;
for (let at = 0; at < data.length; at += 4) {
  found += data[at] === 0 && data[at + 1] === 114 && data[at + 2] === 178;
}
return found;
"""
"""Number of pixels of the chart of records in the colour of the first vertex, #0072b2."""


def test_a_chart_has_lines_that_can_be_hidden_and_the_values_at_the_pointer(browser: Any) -> None:
    from selenium.webdriver import ActionChains

    wait(browser, lambda page: page.execute_script(_PIXELS_OF_SOURCE) > 0)
    source = find(browser, '[data-chart="records_per_s"] .values button')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", source)
    source.click()
    wait(browser, lambda page: page.execute_script(_PIXELS_OF_SOURCE) == 0)
    source.click()
    wait(browser, lambda page: page.execute_script(_PIXELS_OF_SOURCE) > 0)
    cursor = find(browser, '[data-chart="records_per_s"] canvas + canvas')
    ActionChains(browser).move_to_element(cursor).perform()
    wait(browser, lambda page: "latest" not in legend_of(page))
    busy = find(browser, '[data-chart="busy"] .values').text
    assert re.match(r"At: [\d.]+ s\s", busy), "all charts show the same moment"
    ActionChains(browser).move_to_element(find(browser, "#name")).perform()
    wait(browser, lambda page: "latest" in legend_of(page))


def test_two_sides_stand_beside_each_other_and_one_is_kept(browser: Any) -> None:
    choose(browser, "#pace", "1")
    find(browser, "#fork").click()
    wait(browser, lambda page: len(page.find_elements("css selector", "#sides > [data-side]")) == 2)
    wait(browser, lambda page: "Side b replays the run: " in find(page, "[data-side=b] .replay").text)
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "running")
    assert not find(browser, "[data-side=b] .replay").is_displayed()
    # The page draws these figures a moment after side b has caught up.
    wait(browser, lambda page: times_of_last(page, "b") == times_of_last(page, "a"))
    enter(browser, "service", "map", "2 ms")
    wait(browser, lambda page: "Cost of a record of map to 2 ms" in incidents(page))
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


def press(browser: Any, key: str) -> None:
    """Press a key on the page itself, where no control has the focus."""
    browser.execute_script("document.activeElement.blur()")
    find(browser, "body").send_keys(key)


def test_the_keyboard_leads_through_the_job(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    choose(browser, "#step-size", "0.1")
    before = seconds(browser)
    press(browser, Keys.ARROW_RIGHT)
    wait(browser, lambda page: seconds(page) == pytest.approx(before + 0.1, abs=0.002))
    press(browser, Keys.SPACE)
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "running")
    press(browser, Keys.SPACE)
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "paused")
    browser.execute_script("document.querySelector('[data-vertex=map] canvas').focus()")
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    wait(browser, lambda page: find(page, "#detail").text.startswith("map 1 in task manager map"))
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert find(browser, "#subtask").get_property("value") == '["map",1]'


def test_there_is_a_way_back_to_a_moment(browser: Any) -> None:
    find(browser, "#back-to").send_keys("1.5")
    find(browser, "#back").click()
    wait(browser, lambda page: seconds(page) == 1.5)
    wait(
        browser, lambda page: "Cost of a record" not in incidents(page)
    )  # what was changed later is forgotten


def full_bars(browser: Any) -> list[str]:
    """What a full bar stands for, in the channels of the first edge of each side."""
    heads = browser.find_elements("css selector", '#sides [data-edge="0"] h3 small')
    browser.execute_script("arguments[0].scrollIntoView()", heads[0])
    return [head.text.partition("full bar: ")[2] for head in heads]


def test_both_sides_have_one_scale_though_the_queues_of_one_stay_short(browser: Any) -> None:
    find(browser, "#back-to").send_keys("0.1")
    find(browser, "#back").click()
    wait(browser, lambda page: seconds(page) == 0.1)
    find(browser, "#fork").click()
    wait(browser, lambda page: full_bars(page) == ["4 buffers", "4 buffers"])
    find(browser, "#act-a").click()
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "paused")
    enter(browser, "rate", "source", "1")
    choose(browser, "#pace", "fastest")
    find(browser, "#pause").click()
    wait(browser, lambda page: full_bars(page) == ["10 buffers", "10 buffers"])
    find(browser, "#pause").click()
    find(browser, "#keep-b").click()
    wait(browser, lambda page: len(page.find_elements("css selector", "#sides > [data-side]")) == 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 500])
def test_nothing_sticks_out_of_the_page(browser: Any, width: int, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wait(browser, lambda page: page.execute_script("return window.innerWidth") == width)
    whole = "document.documentElement"
    wait(browser, lambda page: page.execute_script(f"return {whole}.scrollWidth <= {whole}.clientWidth"))
    table = "document.getElementById('checkpoints').parentElement"
    wait(browser, lambda page: page.execute_script(f"return {table}.scrollWidth <= {table}.clientWidth"))
    browser.execute_script(f"{table}.scrollIntoView()")
    top = browser.execute_script("return document.getElementById('last').getBoundingClientRect().top")
    assert 0 <= top < 900  # the last checkpoint stays in sight
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}[scheme]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_wrong_value_is_refused_with_its_field_and_what_would_be_right(browser: Any) -> None:
    enter(browser, "service", "sink", "soon")
    wait(browser, lambda page: "Cost of a record of sink: 'soon'" in find(page, "#refused").text)
    assert "it must be a time such as" in find(browser, '[data-group="sink"] .problem').text


def test_an_experiment_changes_the_job_says_what_to_watch_and_is_taken_back(browser: Any) -> None:
    choose(browser, "#pace", "fastest")
    if find(browser, "#pause").text == "Continue":
        find(browser, "#pause").click()
    unaligned = find(browser, "[data-experiment=unaligned]")
    assert unaligned.text == "Unaligned checkpoints"
    unaligned.click()
    wait(browser, lambda page: "Unaligned checkpoints to on" in incidents(page))
    effect = find(browser, "#experiments .effect:not([hidden])")
    assert effect.text.startswith("Watch: From the next checkpoint on, barriers overtake")
    wait(browser, lambda page: "not yet" not in effect.text)  # a checkpoint since then has ended
    wait(browser, lambda page: unaligned.text == "Back to aligned checkpoints")
    cost = find(browser, '[data-control="service"][data-vertex="sink"]')
    slow, before = find(browser, "[data-experiment=slow]"), cost.get_property("value")
    slow.click()
    wait(browser, lambda page: slow.text == "Make sink as fast as before")
    assert cost.get_property("value") != before
    slow.click()
    wait(browser, lambda page: cost.get_property("value") == before)


def test_a_load_and_an_outage_are_seen_as_a_backlog(browser: Any) -> None:
    choose(browser, "#pace", "5")
    enter(browser, "load", "", "0.5")
    wait(browser, lambda page: "Set Rate of source to 1500 records/s" in incidents(page))
    load = find(browser, '[data-control="load"]')
    wait(browser, lambda page: load.get_property("value") == "0.5")
    seconds_down = find(browser, "#outage-seconds")
    seconds_down.clear()
    seconds_down.send_keys("20")
    find(browser, "#outage").click()
    wait(browser, lambda page: find(page, "#state").get_attribute("data-state") == "down")
    assert re.fullmatch(r"until [\d.]+ s", find(browser, "#state-text").text)
    assert find(browser, "#backlog").text == "Backlog –"
    wait(
        browser, lambda page: re.fullmatch(r"Backlog [\d,]+ records, catching up", backlog_of(page))
    )  # two thirds of what the sinks can read arrive meanwhile, so it takes a while
    chart = '[data-chart="pending_records"] .values'
    wait(browser, lambda page: re.search(r"source:?\s*\d+,\d+", find(page, chart).text))
    assert "sink" not in find(browser, chart).text
    wait(browser, lambda page: re.fullmatch(r"Backlog \d+ records?", backlog_of(page)))
    enter(browser, "rate", "source", "0")
    wait(browser, lambda page: load.get_property("value") == "")
    assert backlog_of(browser) == "Backlog –"
    enter(browser, "load", "", "1")
    wait(browser, lambda page: find(page, '[data-control="rate"]').get_property("value") == "3000")


def backlog_of(browser: Any) -> str:
    return str(find(browser, "#backlog").text)


def figures(browser: Any, vertex: str, of: str) -> dict[str, str]:
    """Text of the table of a running Flink about a vertex: measured in Flink, or predicted."""
    cells = browser.find_elements(
        "css selector", f'#flink-vertices [data-vertex="{vertex}"] [data-of="{of}"] [data-figure]'
    )
    return {cell.get_attribute("data-figure"): cell.get_property("textContent") for cell in cells}


def test_flink_stands_beside_what_is_predicted(browser: Any) -> None:
    """A job of two vertices whose answers were recorded, served over HTTP as a cluster would."""
    with replayed(NAMES[0]) as cluster, running("--from-flink", cluster.url, "--watch", "2 s") as address:
        browser.get(address)
        wait(browser, lambda page: "Watching the job's metrics" in find(page, "#reading-text").text)
        wait(browser, lambda page: figures(page, "stage1", "a").get("records_per_s", "–") != "–")
        now, predicted = figures(browser, "stage1", "flink"), figures(browser, "stage1", "a")
        rates = [float(each["records_per_s"].removesuffix("/s")) for each in (now, predicted)]
        assert rates[0] == pytest.approx(rates[1], rel=0.05)
        assert now["in_pool"].endswith("%")
        source = figures(browser, "source", "flink")
        assert {source[figure] for figure in ("in_pool", "input_queue", "alignment_ms_max_subtask")} == {"–"}
        cluster.refuse = lambda request: 503
        wait(browser, lambda page: find(page, "#flink-state").get_attribute("data-state") == "away")
        assert figures(browser, "stage1", "flink")["in_pool"] == now["in_pool"]
        cluster.refuse = lambda request: None
        wait(browser, lambda page: find(page, "#flink-state").get_attribute("data-state") == "running")
        cluster.answers[f"/jobs/{cluster.job}"]["timestamps"]["RUNNING"] += 1000
        wait(browser, lambda page: find(page, "#flink-state").get_attribute("data-state") == "gone")
        find(browser, "#read-again").click()
        wait(browser, lambda page: find(page, "#flink-state").get_attribute("data-state") == "running")
        browser.get("about:blank")  # as a page tries to find a lab that has ended, and says so on the console


def test_a_recording_is_shown_as_one(browser: Any) -> None:
    with running("--from-flink", "docs/examples/wordcount_off.rest.json.gz") as address:
        browser.get(address)
        wait(browser, lambda page: find(page, "#flink-state").get_attribute("data-state") == "recorded")
        assert "old" not in find(browser, "#flink-text").text
        browser.get("about:blank")


def test_the_console_has_no_errors(browser: Any) -> None:
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry["message"] for entry in severe if "favicon" not in entry["message"]] == []
