"""Questions to a process that is not connected yet, over real sockets of 127.0.0.1."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import trio

from flowcontrol import Secret, seal
from netstack import Letterbox, ask_letterbox
from tests.netstack.meshes import SECRET, log_lines, no_socket_left

LONGEST = 1000

Answers = dict[bytes, bytes | None]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


async def shout(question: bytes) -> bytes:
    return question.upper()


async def ask_all(address: tuple[str, int], questions: list[bytes], answers: Answers) -> None:
    async def ask(question: bytes) -> None:
        answers[question] = await ask_letterbox(address, SECRET, question, LONGEST)

    async with trio.open_nursery() as nursery:
        for question in questions:
            nursery.start_soon(ask, question)


def test_every_question_has_its_answer_and_then_it_closes() -> None:
    async def main() -> None:
        address = ("127.0.0.1", free_port())
        questions = [b"a%d" % number for number in range(40)] + [b"x" * LONGEST, b""]
        answers: Answers = {}
        async with Letterbox("127.0.0.1", SECRET, len(questions), LONGEST, shout) as letterbox:
            await letterbox.open(address[1])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_all, address, questions, answers)
                await letterbox.serve()
        assert answers == {question: question.upper() for question in questions}
        assert await ask_letterbox(address, SECRET, b"too late", LONGEST) is None

    with no_socket_left(), log_lines() as log:
        trio.run(main)
    assert log.lines == []


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            b"GET / HTTP/1.1\r\n\r\n",
            "the signature of the message does not match: the sender does not have the secret of this job",
        ),
        (
            seal(Secret(b"the secret of others"), b"question", b"hello"),
            "the signature of the message does not match: the sender does not have the secret of this job",
        ),
        (b"", "the signature of the message does not match: the sender does not have the secret of this job"),
        (bytes(LONGEST + 33), "more than the 1000 bytes"),
    ],
)
def test_strangers_are_told_nothing_and_disturb_nobody(said: bytes, problem: str) -> None:
    async def main() -> None:
        address = ("127.0.0.1", free_port())
        answers: Answers = {}
        with log_lines() as log:
            async with Letterbox("127.0.0.1", SECRET, 1, LONGEST, shout) as letterbox:
                await letterbox.open(address[1])
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(letterbox.serve)
                    async with await trio.open_tcp_stream(*address) as stranger:
                        await stranger.send_all(said)
                        await stranger.send_eof()
                        with suppress(trio.BrokenResourceError):
                            assert await stranger.receive_some(1) == b""
                    await log.wait_for(1)
                    await ask_all(address, [b"friend"], answers)
        assert answers == {b"friend": b"FRIEND"}
        (line,) = log.lines
        assert problem in line
        assert "refused a connection from 127.0.0.1:" in line

    with no_socket_left():
        trio.run(main)


def lie(question: bytes) -> bytes:
    return seal(Secret(b"the secret of others"), b"answer", b"come to me")


def echo(question: bytes) -> bytes:
    return question


def say_nothing(question: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("answer", [lie, echo, say_nothing])
def test_a_wrong_answer_is_none(answer: Callable[[bytes], bytes]) -> None:
    async def main() -> None:
        async def stranger(stream: trio.SocketStream) -> None:
            await stream.send_all(answer(b"".join([bytes(piece) async for piece in stream])))

        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, stranger, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]
            assert await ask_letterbox(("127.0.0.1", port), SECRET, b"hello", LONGEST) is None
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_taken_port_is_an_error() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            async with Letterbox("127.0.0.1", SECRET, 1, LONGEST, shout) as letterbox:
                with pytest.raises(OSError, match="cannot listen at"):
                    await letterbox.open(server.getsockname()[1])

    trio.run(main)


def test_a_question_that_comes_again_is_answered_and_not_counted_again() -> None:
    async def main() -> None:
        address = ("127.0.0.1", free_port())
        answers: Answers = {}
        async with Letterbox("127.0.0.1", SECRET, 2, LONGEST, shout) as letterbox:
            await letterbox.open(address[1])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(letterbox.serve)
                for _ in range(50):  # more than there are places
                    assert await ask_letterbox(address, SECRET, b"overheard", LONGEST) == b"OVERHEARD"
                await ask_all(address, [b"friend"], answers)
        assert answers == {b"friend": b"FRIEND"}

    with no_socket_left(), log_lines() as log:
        trio.run(main)
    assert log.lines == []


@pytest.mark.parametrize("overheard", [False, True], ids=["silent", "who repeat what they have overheard"])
def test_those_who_are_meant_are_answered_while_strangers_hold_all_places(overheard: bool) -> None:
    """An answer comes when all have asked, and until then who has asked keeps the place."""

    async def main() -> None:
        address = ("127.0.0.1", free_port())
        answers: Answers = {}
        asked: set[bytes] = set()
        all_asked = trio.Event()

        async def answer(question: bytes) -> bytes:
            asked.add(question)
            if len(asked) == 2:
                all_asked.set()
            await all_asked.wait()
            return question.upper()

        async with Letterbox("127.0.0.1", SECRET, 2, LONGEST, answer) as letterbox:
            await letterbox.open(address[1])
            with log_lines() as log:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(letterbox.serve)
                    nursery.start_soon(ask_all, address, [b"first"], answers)
                    while not asked:
                        await trio.lowlevel.checkpoint()
                    strangers = [await trio.open_tcp_stream(*address) for _ in range(100)]
                    for stranger in strangers:
                        with suppress(trio.BrokenResourceError):
                            await stranger.send_all(
                                seal(SECRET, b"question", b"first") if overheard else b"?"
                            )
                            await stranger.send_eof() if overheard else None
                    await log.wait_for(100 - 17)
                    assert answers == {}
                    await ask_all(address, [b"second"], answers)
                for stranger in strangers:
                    await stranger.aclose()
        assert answers == {b"first": b"FIRST", b"second": b"SECOND"}

    with no_socket_left():
        trio.run(main)
