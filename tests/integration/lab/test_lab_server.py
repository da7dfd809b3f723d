"""The server of the lab: who gets in, what is refused, and that pages leave nothing behind."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
import wsproto
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    RejectConnection,
    Request,
    TextMessage,
)

from integration.lab.lab import Lab, example
from integration.lab.server import (
    FRAMES_PER_S,
    LONGEST_S,
    MOST_MESSAGE_BYTES,
    MOST_PAGES,
    SHARE_OF_FRAMES,
    FramePace,
    LabServer,
)

PATIENCE_S = 120.0


NONSENSE = (
    "",
    "{",
    "[]",
    "1e999",
    "\u2028" * 100,
    '{"type": "kill"}',
    '{"type": "reboot"}',
    '{"type": "back", "t": "x"}',
    '{"type": "pace", "value": -1}',
    '{"type": "step", "seconds": 1e400}',
    '{"type": "change", "side": "c", "key": "x", "value": "y"}',
)
"""Requests that no page sends."""


class Refusal(Exception):  # noqa: N818 - it is what the server says
    """A page was not let in: the status, or the code with which it was closed."""


class Page:
    """An open page, as the server sees one."""

    def __init__(self, stream: trio.SocketStream, connection: wsproto.WSConnection) -> None:
        self.stream, self._connection = stream, connection
        self._texts: list[str] = []
        self._part = ""

    async def receive(self) -> None:
        """Take in what has come next."""
        data = await self.stream.receive_some()
        self._connection.receive_data(data or None)
        for event in self._connection.events():
            match event:
                case RejectConnection(status_code=status):
                    raise Refusal(status)
                case CloseConnection(code=code):
                    raise Refusal(code)
                case TextMessage(data=text, message_finished=finished):
                    self._part += text
                    if finished:
                        self._texts.append(self._part)
                        self._part = ""
                case AcceptConnection():
                    pass

    async def next(self, kind: str) -> dict[str, Any]:
        """The next message of a kind; others are passed over."""
        while True:
            while self._texts:
                message: dict[str, Any] = json.loads(self._texts.pop(0))
                if message["type"] == kind:
                    return message
            await self.receive()

    async def say(self, text: str) -> None:
        await self.stream.send_all(self._connection.send(TextMessage(data=text)))

    async def say_bytes(self, data: bytes) -> None:
        await self.stream.send_all(self._connection.send(BytesMessage(data=data)))


class Browser:
    """Opens pages of the lab at an address, and closes what is left of them."""

    def __init__(self, address: str) -> None:
        self.url = urlsplit(address)
        self._streams: list[trio.SocketStream] = []

    async def connect(self) -> trio.SocketStream:
        stream = await trio.open_tcp_stream(self.url.hostname or "", self.url.port or 0)
        self._streams.append(stream)
        return stream

    async def open(self, **headers: str) -> Page:
        """Open a websocket; `headers` are the host, origin or query in place of the right one."""
        sent = {
            "host": self.url.netloc,
            "origin": f"http://{self.url.netloc}",
            "query": self.url.query,
        } | headers
        connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        origin = [(b"Origin", sent["origin"].encode())] if sent["origin"] else []
        request = Request(host=sent["host"], target=f"/ws?{sent['query']}", extra_headers=origin)
        page = Page(await self.connect(), connection)
        await page.stream.send_all(connection.send(request))
        await page.receive()
        return page

    async def get(self, target: str, host: str = "") -> tuple[int, bytes]:
        """Ask for a path, and return the status and all that came."""
        stream = await self.connect()
        head = f"GET {target} HTTP/1.1\r\nHost: {host or self.url.netloc}\r\nConnection: close\r\n\r\n"
        await stream.send_all(head.encode())
        answer = b"".join([part async for part in stream])
        return int(answer.split()[1]), answer

    async def close(self) -> None:
        for stream in self._streams:
            await stream.aclose()


@asynccontextmanager
async def browsing(server: LabServer) -> AsyncIterator[Browser]:
    """A browser at a server that serves while the block runs, which may take a while at most."""
    send, receive = trio.open_memory_channel[str](1)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(server.serve, 0, send.send_nowait))
            browser = Browser(await receive.receive())
            yield browser
            await browser.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def served() -> AsyncIterator[tuple[LabServer, Browser]]:
    lab = Lab(example())
    server = LabServer(lab)
    try:
        async with browsing(server) as browser:
            yield server, browser
    finally:
        lab.close()


def in_trio(test: Callable[[LabServer, Browser], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        async with served() as (server, browser):
            await test(server, browser)

    def synchronous() -> None:
        trio.run(run)

    synchronous.__name__, synchronous.__doc__ = test.__name__, test.__doc__
    return synchronous


async def left_alone(server: LabServer) -> None:
    """Wait until no page is open."""
    while server.pages:  # noqa: ASYNC110 - the server tells nobody
        await trio.sleep(0.01)


@in_trio
async def test_a_page_gets_the_job_and_what_moves(server: LabServer, browser: Browser) -> None:
    page = await browser.open()
    hello = await page.next("hello")
    assert [vertex["name"] for vertex in hello["vertices"]] == ["source", "map", "sink"]
    first, second = await page.next("frame"), await page.next("frame")
    assert second["t"] >= first["t"] >= 0
    await page.say('{"type": "change", "side": "a", "key": "service", "value": "1 ms", "vertex": "sink"}')
    hello = await page.next("hello")
    (service,) = [each for each in hello["sides"][0]["controls"] if each["key"] == "service" and
                  each["vertex"] == "sink"]  # fmt: skip
    assert service["value"] == "1 ms"


@in_trio
async def test_two_pages_see_the_same_lab(server: LabServer, browser: Browser) -> None:
    one, other = await browser.open(), await browser.open()
    await one.next("hello")
    await other.next("hello")
    await one.say('{"type": "pause", "paused": true}')
    assert (await other.next("hello"))["paused"]
    await one.say('{"type": "copy", "side": "a"}')
    assert 'name = "lab"' in (await one.next("copied"))["toml"]


class Listener:
    """A websocket that takes down what it is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send_text(self, text: str) -> None:
        self.messages.append(json.loads(text))


def test_a_checkpoint_that_ended_since_the_last_frame_comes_once() -> None:
    lab = Lab(example())
    lab.sides[0].advance(12.0)
    server, listener = LabServer(lab), Listener()

    async def until_it_waits() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server._send, listener, nursery.cancel_scope)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(until_it_waits)
    lab.close()
    (hello,) = listener.messages
    assert [checkpoint["id"] for checkpoint in hello["sides"][0]["checkpoints"]] == [1, 2]


@in_trio
async def test_only_who_has_the_address_gets_in(server: LabServer, browser: Browser) -> None:
    for headers in (
        {"query": "token=guess"},
        {"query": ""},
        {"origin": "http://evil.example"},
        {"origin": ""},
        {"origin": "null"},
        {"origin": f"https://{browser.url.netloc}"},
        {"host": "evil.example"},
    ):
        with pytest.raises(Refusal, match=r"4403|403"):
            await (await browser.open(**headers)).next("hello")
    target = f"/?{browser.url.query}"
    assert (await browser.get(target))[0] == 200
    assert (await browser.get("/"))[0] == 403
    assert (await browser.get("/?token=guess"))[0] == 403
    assert (await browser.get(target, host="evil.example"))[0] == 403
    assert server.pages == 0


@in_trio
async def test_only_files_of_the_page_are_given_out(server: LabServer, browser: Browser) -> None:
    status, answer = await browser.get("/static/lab.js")
    assert status == 200
    assert b"content-security-policy: default-src 'self'" in answer.lower()
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/none.js", "/static/", "/x",
                 "/static/page", "/static//etc/passwd", "/static/lab.js%00", f"/static/{'a' * 5000}.js",
                 f"/static/{'a/' * 2500}lab.js"):  # fmt: skip
        assert (await browser.get(path))[0] == 404, path
    assert (await browser.get("/static/lab.js", host="evil.example"))[0] == 403


@in_trio
async def test_what_makes_no_sense_is_refused_and_the_page_stays(server: LabServer, browser: Browser) -> None:
    page = await browser.open()
    for text in NONSENSE:
        await page.say(text)
        assert (await page.next("refused"))["text"]
    await page.say_bytes(b"\xff\x00")
    assert (await page.next("refused"))["text"]
    assert (await page.next("frame"))["side"] == "a"
    await page.say("x" * (MOST_MESSAGE_BYTES + 1))
    with pytest.raises(Refusal, match="1009"):
        await page.next("refused")


@in_trio
async def test_pages_that_come_and_go_leave_nothing_behind(server: LabServer, browser: Browser) -> None:
    pages = [await browser.open() for _ in range(MOST_PAGES)]
    for page in pages:
        await page.next("hello")
    for _ in range(100 - MOST_PAGES):
        with pytest.raises(Refusal, match=r"4429|403"):
            await (await browser.open()).next("hello")
    for number, page in enumerate(pages):
        if number % 2:
            await page.stream.aclose()
        else:
            await trio.aclose_forcefully(page.stream)
    await left_alone(server)
    now = server.lab.now
    await trio.sleep(0.1)
    assert server.lab.now - now < 0.02  # nobody looks, so nothing runs
    await (await browser.open()).next("frame")


@in_trio
async def test_a_page_that_does_not_read_keeps_nobody_waiting(server: LabServer, browser: Browser) -> None:
    slow = await browser.open()
    quick = await browser.open()
    await quick.say('{"type": "pace", "value": null}')
    for _ in range(40):
        await quick.next("frame")
    assert server.pages == 2
    await slow.stream.aclose()


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
