"""Asking a cluster that answers late, wrongly, too much, or not at all."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

import pytest

from integration.base.errors import FlinkRestError
from integration.flink.http import live_cluster
from integration.flink.http.client import RestClient
from integration.flink.http.connections import CONNECTIONS
from tests.integration.flink.flink_cluster import Quiet, serving_on_loopback

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """The address of a server that answers so to every path."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

    with serving_on_loopback(Handler) as url:
        yield url


def sent(body: bytes, code: int = 200, length: int | None = None, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1", "http://127.0.0.1:abc", "http://127.0.0.1:99999", "http://127.0.0.1:-5"),
        *("http://\u2100x", "http://", "ftp://host", "host:8081", ""),
    ],
)
def test_addresses_that_are_none(url):
    with pytest.raises(
        FlinkRestError, match=r"is not an address of Flink's REST API\. Write http://HOST:8081, or "
    ):
        RestClient(url)


def test_a_host_that_no_name_server_takes():
    with pytest.raises(FlinkRestError, match="cannot be reached"):
        RestClient("http://a..b:8081").get("/config")


@pytest.mark.parametrize("page", ["", "/", "///", "/#/overview", "/#/job/running/abc", "?x=1", " "])
def test_the_address_of_a_page_of_the_web_interface_will_do(page):
    with answering(sent(b"{}")) as url:
        client = RestClient(url + page)
        assert (client.url, client.get("/config")) == (url, {})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (sent(b"[" * 100_000 + b"]" * 100_000), "the answer is not JSON"),
        (
            sent(b'{"a":' + b"[" * 33 + b"]" * 33 + b"}"),
            "the answer is not JSON: it is nested more than 32 levels deep",
        ),
        (sent(b'{"a": 1'), "the answer is not JSON"),
        (
            sent(b'{"a": NaN}'),
            "/config: the answer is not JSON: NaN at byte 6 is not a number in JSON. "
            "Check that this is the address of Flink's REST API.",
        ),
        (sent(b"[-Infinity]"), "the answer is not JSON: Infinity at byte 2 is not a number in JSON"),
        (sent(b"[1e999]"), "the answer is not JSON: Number out of range"),
        (sent(b"[" + b"[]," * (1 << 19) + b"[]]"), "/config: the answer has more than 1,048,576 values"),
        (sent(b'{"a": 1', length=100), "the answer is incomplete or malformed: peer closed connection"),
        (sent(b'{"errors":', 500, length=100), "Flink answers 500: Internal Server Error"),
        (sent(b"[" * 50_000, 500), "Flink answers 500: Internal Server Error"),
        (sent(b'{"errors": ["told\\n so"]}', 503), "Flink answers 503: told so"),
        (
            sent(b"", 302, Location="/config"),
            "Flink answers 302: redirects to /config, which is not followed",
        ),
        (sent(b"", 302, Location="file:///etc/passwd"), "Flink answers 302: redirects to file:///etc/passwd"),
        (sent(b"", 302, Location="http://[::1"), "the answer is incomplete or malformed: Invalid URL"),
        (
            sent(b"null"),
            "/config: does not answer as Flink's REST API does: there is null in place of an object",
        ),
        (sent(b"[]"), "there is a list in place of an object"),
        (sent(b"0.5"), "there is a number in place of an object"),
        (sent(b"", 401), "Flink answers 401: Unauthorized"),
    ],
)
def test_answers_that_are_none(answer, message):
    with answering(answer) as url:
        client = RestClient(url)
        with client.reading(), pytest.raises(FlinkRestError) as caught:
            client.get("/config")
    (problem,) = caught.value.problems
    assert message in problem
    assert "\n" not in problem


def test_as_many_values_as_an_answer_may_have():
    body = b'{"jobs":[' + b"{}," * ((1 << 19) - 2) + b"0]}"
    with answering(sent(body)) as url:
        assert len(RestClient(url).get("/jobs/overview")["jobs"]) == (1 << 19) - 1


def test_a_redirection_is_followed():
    def answer(request: BaseHTTPRequestHandler) -> None:
        moved = request.path.startswith("/new")
        (sent(b'{"a": 1}') if moved else sent(b"", 301, Location=f"/new{request.path}"))(request)

    with answering(answer) as url:
        assert RestClient(url).get("/config") == {"a": 1}


@pytest.mark.parametrize("code", [404, 500, 503])
def test_a_failure_at_one_path_costs_only_what_it_would_have_told(code):
    with answering(sent(json.dumps({"errors": ["no"]}).encode(), code)) as url:
        client = RestClient(url)
        assert client.find("/a") is None
        assert client.find("/b", may_be_gone=True) is None
    assert client.missing == (["/a"] if code == 404 else ["/a", "/b"])


def test_a_refusal_is_no_want_of_a_path():
    with answering(sent(b"", 403)) as url, pytest.raises(FlinkRestError, match="Flink answers 403"):
        RestClient(url).find("/a")


def test_an_answer_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(live_cluster, "LARGEST_ANSWER", 1 << 20)
    with (
        answering(sent(b"[" + b" " * (2 << 20))) as url,
        pytest.raises(FlinkRestError, match="has more than 1 MiB"),
    ):
        RestClient(url).get("/config")


@pytest.mark.parametrize(
    "elsewhere", ["http://localhost:{port}/", "https://127.0.0.1:{port}/", "http://127.0.0.1:{other}/"]
)
def test_a_redirection_stays_on_its_scheme_host_and_port(elsewhere):
    asked = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        place = elsewhere.format(port=request.server.server_port, other=others_port)
        sent(b"", 307, Location=place)(request)

    def other(request: BaseHTTPRequestHandler) -> None:
        asked.append("elsewhere")
        sent(b"{}")(request)

    with answering(other) as others, answering(answer) as url:
        others_port = int(others.rpartition(":")[2])
        with pytest.raises(FlinkRestError, match="Flink answers 307: redirects to http"):
            RestClient(url).get("/config")
    assert asked == ["/config"]


def test_a_list_of_what_is_no_object():
    with answering(sent(b"[1]")) as url, pytest.raises(FlinkRestError) as caught:
        RestClient(url).find_list("/x")
    assert caught.value.problems == (
        f"{url}: /x: does not answer as Flink's REST API does: there is a number in place of an object",
    )


@contextmanager
def dripping(head: bytes, drip: bytes) -> Iterator[str]:
    """The address of a server that sends `head` and then `drip` time and again, while it is read."""
    over = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(head)
                    while not over.wait(0.02):
                        connection.sendall(drip)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "drip"),
    [
        pytest.param(b"HTTP/1.1 200 ", b"O", id="status line"),
        pytest.param(OK, b"X-Drip: 1\r\n", id="headers"),
        pytest.param(OK + b"X-Long: ", b"x", id="header"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0", id="chunk size"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="100 Continue"),
        pytest.param(OK + b"Content-Length: 1000000\r\n\r\n", b" ", id="body"),
        pytest.param(b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", b" ", id="body of an error"),
    ],
)
def test_an_answer_that_drips_is_given_up(head, drip):
    with dripping(head, drip) as url, pytest.raises(FlinkRestError) as caught:
        RestClient(url, timeout_s=0.2).get("/config")
    (problem,) = caught.value.problems
    assert problem.startswith(f"{url}: no complete answer within 0.2 s")


def test_a_redirection_does_not_begin_the_time_anew():
    """Each hop is answered within the limit; all of them together are not."""
    over = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        over.wait(0.15)
        sent(b"", 302, Location=f"{request.path}x")(request)

    with answering(answer) as url, pytest.raises(FlinkRestError, match=r"no complete answer within 0\.2 s"):
        RestClient(url, timeout_s=0.2).get("/config")


def test_connections_are_kept_and_closed_with_the_client() -> None:
    opened: list[object] = []
    ended = threading.Semaphore(0)

    class Handler(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            opened.append(self.client_address)

        def do_GET(self) -> None:
            sent(json.dumps({"path": self.path}).encode())(self)

        def finish(self) -> None:
            super().finish()
            ended.release()

    with serving_on_loopback(Handler) as url:
        client = RestClient(url)
        paths = [f"/{number}" for number in range(50)]
        assert list(client.find_all(paths)) == [{"path": path} for path in paths]
        assert client.get("/last") == {"path": "/last"}
        assert len(opened) == CONNECTIONS
        del client
        for _ in opened:
            ended.acquire()


def test_of_several_paths_the_first_that_fails_is_reported() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        sent(b"{}" if request.path in "/0 /1" else b"no")(request)

    with answering(answer) as url:
        found = RestClient(url).find_all([f"/{number}" for number in range(100)])
        assert [next(found), next(found)] == [{}, {}]
        with pytest.raises(FlinkRestError, match="/2: the answer is not JSON"):
            next(found)
