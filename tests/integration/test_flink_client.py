"""Asking a cluster that answers late, wrongly, too much, or not at all."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from integration.flink_rest import FlinkRestError
from integration.flink_rest import client as client_module
from integration.flink_rest.client import RestClient

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """The address of a server that answers so to every path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
    with pytest.raises(FlinkRestError, match="is no address of Flink's REST API; write http://HOST:8081"):
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
        (sent(b"[" * 100_000 + b"]" * 100_000), "the answer is no JSON"),
        (sent(b'{"a": 1'), "the answer is no JSON"),
        (sent(b'{"a": 1', length=100), "cannot be reached: IncompleteRead"),
        (sent(b'{"errors":', 500, length=100), "Flink answers 500: Internal Server Error"),
        (sent(b"[" * 50_000, 500), "Flink answers 500: Internal Server Error"),
        (sent(b'{"errors": ["told\\n so"]}', 503), "Flink answers 503: told so"),
        (sent(b"", 302, Location="/config"), "Flink answers 302: The HTTP server returned a redirect error"),
        (sent(b"", 302, Location="file:///etc/passwd"), "Flink answers 302"),
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


def test_a_redirection_is_followed():
    def answer(request: BaseHTTPRequestHandler) -> None:
        moved = request.path.startswith("/new")
        (sent(b"[1]") if moved else sent(b"", 301, Location=f"/new{request.path}"))(request)

    with answering(answer) as url:
        assert RestClient(url).get("/config") == [1]


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
    monkeypatch.setattr(client_module, "LARGEST_ANSWER", 1 << 20)
    with (
        answering(sent(b"[" + b" " * (2 << 20))) as url,
        pytest.raises(FlinkRestError, match="has more than 1 MiB"),
    ):
        RestClient(url).get("/config")


def test_an_answer_that_trickles_is_given_up():
    over = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        while not over.wait(0.02):
            request.wfile.write(b" ")

    with answering(answer) as url:
        try:
            with pytest.raises(FlinkRestError, match=r"no answer within 0\.2 s"):
                RestClient(url, timeout_s=0.2).get("/config")
        finally:
            over.set()
