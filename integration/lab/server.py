"""Server of a lab on this machine: the page, its files, and one websocket for each open page.

The server listens only on the loopback interface. A page has to send the token in its address, this machine
as host, and this server as origin. This keeps out other users, and other sites that are open in the browser.
With a running Flink, the lab only exists once the Flink job has been read. Until then, pages show the
progress.

One trio task runs the emulation piece by piece, and the other tasks run between two pieces. `FramePace`
decides when a frame is due. A page that is too slow misses some frames. While no page is open, nothing runs.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from time import monotonic, perf_counter, process_time

import msgspec
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from netstack import InputError

from ..base.errors import UsageError
from .lab import Lab
from .live_job import LiveJob
from .messages import Answer, ReadAgain, Reading, Refused, encode, read_request
from .observed_flink import ObservedFlink

MOST_PAGES = 32
"""Maximum number of open pages."""

MOST_MESSAGE_BYTES = 16 << 10
"""Maximum size of a message from a page, in bytes."""

FRAMES_PER_S = 20

SHARE_OF_FRAMES = 0.12
"""Maximum share of processor time for frames while the emulation is busy."""

LONGEST_S = 1.0
"""Seconds after which a frame is sent even on a busy processor, so that a page does not seem to hang."""

_PATIENCE = 4.0
"""Maximum wait for a frame, as a multiple of the pause that the cost of the last frame requires."""

_FLINK_EVERY_S = 1.0
"""Seconds between two frames of Flink."""

_READING_EVERY_S = 0.1

_TURN_S = 0.02
"""Processor time of the emulation between two turns of the pages, in seconds."""

_ROUNDS, _ROUNDS_OF_FRAMES = 4, 20
"""Scheduler rounds for other tasks, because a message passes through several tasks on its way to a page."""

_LONGEST_NAME = 64
"""Maximum length of the name of a page's file. A file system may reject longer names."""

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_POLICY = "default-src 'self'; connect-src 'self' ws:; img-src 'self' data:; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FORBIDDEN, _TOO_MANY = 4403, 4429
"""Close codes of websockets."""


class FramePace:
    """Decides when the next frame is due, by the cost of the last one.

    `wall` and `cpu` are clocks in seconds: wall-clock time, and processor time of this process. The cost of
    frames is measured in processor time, because on a busy machine wall-clock time would overstate it.
    """

    def __init__(
        self, wall: Callable[[], float] = monotonic, cpu: Callable[[], float] = process_time
    ) -> None:
        self._wall, self._cpu = wall, cpu
        self._seen_at, self._seen_cpu_s = -math.inf, -math.inf
        self._rest_s = 0.0  # processor time of the emulation before the next frame

    @property
    def waits_s(self) -> float:
        """Seconds until a frame may be due."""
        return max(0.0, self._seen_at + 1 / FRAMES_PER_S - self._wall())

    def is_due(self, *, busy: bool) -> bool:
        """Whether a frame is due. `busy`: the emulation has more to run at once."""
        if self.waits_s > 0:
            return False
        rested = self._cpu() - self._seen_cpu_s >= self._rest_s
        longest_s = max(LONGEST_S, _PATIENCE * self._rest_s)
        return rested or not busy or self._wall() - self._seen_at >= longest_s

    def took(self, cpu_s: float) -> None:
        """Record the processor time of the frame that was just sent."""
        self._seen_at, self._seen_cpu_s = self._wall(), self._cpu()
        self._rest_s = cpu_s * (1 / SHARE_OF_FRAMES - 1)


class _Sent:
    """The part of a run's history that a page has received."""

    def __init__(self, job: LiveJob) -> None:
        self.job = job
        self.rows, self.checkpoints, self.incidents = len(job.rows), len(job.checkpoints), len(job.incidents)

    def changes(self) -> list[str]:
        """Return the new entries, as messages."""
        job = self.job
        new = [*job.incidents[self.incidents :], *job.checkpoints[self.checkpoints :], *job.rows[self.rows :]]
        self.rows, self.checkpoints, self.incidents = len(job.rows), len(job.checkpoints), len(job.incidents)
        return [encode(each) for each in new]


class LabServer:
    """Serves `lab` to pages that know the `token`; the job was read from the cluster `flink`, if given."""

    def __init__(self, lab: Lab | None, *, flink: ObservedFlink | None = None) -> None:
        self.lab = lab
        self.flink = flink
        self.token = secrets.token_urlsafe(24)
        self.pages = 0
        self._frames: list[str] = []
        self._flink_due = 0.0
        self._new_frame = trio.Event()
        self._wanted = trio.Event()  # a page has opened
        self._hosts: frozenset[str] = frozenset()
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._file),
                WebSocketRoute("/ws", self._page),
            ]
        )

    async def serve(self, port: int, ready: Callable[[str], None]) -> None:
        """Serve until cancelled; `ready` receives the address of the page.

        Raises:
            OSError: the port is taken.
        """
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        sock = listeners[0].socket
        port = sock.getsockname()[1]
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        config = Config()
        config.bind = [f"fd://{sock.detach()}"]
        config.accesslog, config.errorlog, config.loglevel = None, "-", "WARNING"
        config.websocket_max_message_size = MOST_MESSAGE_BYTES
        config.graceful_timeout = 0.2
        config.include_server_header = False
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, self.app, config))  # type: ignore[arg-type]
            if self.flink is not None:
                nursery.start_soon(self.flink.run)
            ready(f"http://127.0.0.1:{port}/?token={self.token}")
            await self._run()

    async def _run(self) -> None:
        """Run the emulation piece by piece, and let the pages run in between."""
        pace = FramePace()
        while True:
            if not self.pages:
                self._wanted = trio.Event()
                await self._wanted.wait()
            lab = self.lab
            if lab is None or self._reading is not None:
                self._send_all([])
                await trio.sleep(_READING_EVERY_S)
                continue
            busy = lab.turn(_TURN_S)
            if pace.is_due(busy=busy):
                began = process_time()
                self._make_frames(lab)
                for _ in range(_ROUNDS_OF_FRAMES):
                    await trio.lowlevel.checkpoint()
                pace.took(process_time() - began)
            if not busy:
                await trio.sleep(pace.waits_s)
                continue
            for _ in range(_ROUNDS):
                await trio.lowlevel.checkpoint()

    @property
    def _reading(self) -> Reading | None:
        """Progress while the job is read from Flink, or after this has failed."""
        return None if self.flink is None else self.flink.reading

    def _make_frames(self, lab: Lab) -> None:
        for side in lab.sides:
            side.new_checkpoints()
        frames: list[Answer] = list(lab.frames())
        if self.flink is not None and perf_counter() >= self._flink_due:
            beside = self.flink.frame(list(lab.sides))
            frames += [] if beside is None else [beside]
            self._flink_due = perf_counter() + _FLINK_EVERY_S
        self._send_all(frames)

    def _send_all(self, frames: Sequence[Answer]) -> None:
        """Send frames to all pages."""
        self._frames = [encode(frame) for frame in frames]
        waiting, self._new_frame = self._new_frame, trio.Event()
        waiting.set()

    def _problem(self, connection: HTTPConnection) -> str | None:
        """Return why a request does not come from a page of this server; None: it does."""
        if connection.headers.get("host") not in self._hosts:
            return "this is not the address that netstack lab has printed"
        token = connection.query_params.get("token", "")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "the token is missing or wrong; open the address that netstack lab has printed"
        return None

    async def _index(self, request: Request) -> Response:
        problem = self._problem(request)
        if problem is not None:
            return PlainTextResponse(problem, status_code=403, headers=_HEADERS)
        return _page_file("index.html")

    async def _file(self, request: Request) -> Response:
        if request.headers.get("host") not in self._hosts:
            return PlainTextResponse(
                "this server does not serve that host name", status_code=403, headers=_HEADERS
            )
        return _page_file(request.path_params["name"])

    async def _page(self, socket: WebSocket) -> None:
        scheme, _, host = socket.headers.get("origin", "").partition("://")
        if scheme != "http" or host not in self._hosts:
            await socket.close(_FORBIDDEN)
            return
        await socket.accept()  # only an accepted page receives the code of a close
        if self._problem(socket) is not None:
            await socket.close(_FORBIDDEN)
            return
        if self.pages >= MOST_PAGES:
            await socket.close(_TOO_MANY)
            return
        async with self._open_page(), trio.open_nursery() as nursery:
            nursery.start_soon(self._send, socket, nursery.cancel_scope)
            await self._hear(socket)
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def _open_page(self) -> AsyncIterator[None]:
        self.pages += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.pages -= 1

    async def _send(self, socket: WebSocket, page: trio.CancelScope) -> None:
        """Send news to a page until it closes."""
        known: tuple[Lab, int] | None = None
        sent: list[_Sent] = []
        try:
            while True:
                lab, new_frame = self.lab, self._new_frame
                if (reading := self._reading) is not None:
                    await socket.send_text(encode(reading))
                    known = None
                elif lab is not None:
                    if known != (lab, lab.version):
                        known = lab, lab.version
                        shape = None if self.flink is None else self.flink.shape
                        hello = msgspec.structs.replace(lab.hello(), flink=shape)
                        sent = [_Sent(side) for side in lab.sides]  # after the hello with the history so far
                        await socket.send_text(encode(hello))
                    for message in [text for each in sent for text in each.changes()] + self._frames:
                        await socket.send_text(message)
                await new_frame.wait()
        except (WebSocketDisconnect, RuntimeError, trio.BrokenResourceError):
            page.cancel()

    def _answer_to(self, text: str) -> Answer | None:
        """Carry out a request of a page. Return the answer for that page."""
        request = read_request(text)
        if isinstance(request, ReadAgain):
            if self.flink is None:
                raise UsageError(["This job was not read from Flink, so it cannot be read again."])
            self.flink.read_again()
            return None
        if self.lab is None or self._reading is not None:
            raise UsageError(["The job is still being read from Flink. Wait until it runs here."])
        return self.lab.handle(request)

    async def _hear(self, socket: WebSocket) -> None:
        """Carry out the requests of a page until the page closes."""
        while True:
            try:
                message = await socket.receive()
            except RuntimeError:
                return
            if message["type"] == "websocket.disconnect":
                return
            try:
                answer = self._answer_to(message.get("text") or "")  # the message is bytes, not text
            except msgspec.DecodeError:
                answer = Refused("The lab cannot read this request. Load the page again.")
            except InputError as error:
                answer = Refused("; ".join(error.problems))
            if answer is not None:
                await socket.send_text(encode(answer))


def _page_file(name: str) -> Response:
    """Return a file of the page; names outside of its folder are rejected."""
    no_file = PlainTextResponse("no such file", status_code=404, headers=_HEADERS)
    if len(name) > _LONGEST_NAME:
        return no_file
    found = files(__package__) / "page" / name
    suffix = name[name.rfind(".") :]
    if suffix not in _TYPES or not found.is_file():
        return no_file
    return Response(found.read_bytes(), media_type=_TYPES[suffix], headers=_HEADERS)
