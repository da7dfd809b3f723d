"""Answers to the paths of Flink's REST API: their sources, and the values in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ...base.errors import FlinkRestError, Note, TooManyValuesError
from ...base.reading import DEEPEST, levels_within, one_line

MOST_VALUES = 1 << 20
"""Maximum number of values in an answer: 32 for each subtask at Flink's maximum parallelism."""

WITH_VALUES = "/metrics?get="
"""Part of the path of a metrics request, between the address and the names of the metrics."""

_OPENS_OR_SEPARATES = (b"[", b"{", b",")
_AT_BYTE = re.compile(r"\(byte (\d+)\)$")
_NO_NUMBER = re.compile(rb"NaN|Infinity")

T = TypeVar("T")


class Refused(NamedTuple):
    """An error status in place of an answer, and its reason."""

    code: int
    text: str

    def error(self, where: str) -> FlinkRestError:
        """Return the exception to raise if the path must have an answer."""
        text = self.text
        return FlinkRestError(text.after(f"{where}: ") if isinstance(text, Note) else f"{where}: {text}")


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A time before now, in seconds since 1970, whose figures of a job are read from Prometheus.

    It is the window of `for_s` seconds with the slowest checkpoints between `begin_s` and `end_s`. If these
    are `for_s` apart, it is the time between them.
    """

    begin_s: float
    end_s: float
    for_s: float


class Answers(Protocol):
    """A source of answers to the paths of Flink's REST API, and to those of Prometheus if it has a `past`."""

    name: str
    """The address or file, as shown in messages."""
    past: Past | None = None
    """The time of the figures; None: now."""

    def answer(self, path: str) -> Any | Refused:
        """Return the JSON of the answer.

        Raises:
            FlinkRestError: there is no answer, or it is not JSON.
        """

    def answer_all(self, paths: Sequence[str]) -> Iterator[Any | Refused]:
        """Yield the JSON of the answers to several paths, in order. `clock` returns the time of each.

        Raises:
            FlinkRestError: there is no answer, or it is not JSON.
        """
        return map(self.answer, paths)

    def pause(self, seconds: float) -> None:
        """Wait until this time has passed for the cluster. A recording does not wait."""

    def clock(self) -> float:
        """Return the time of the last answer, in seconds from an arbitrary start."""


def decode_json(body: bytes, shape: type[T], most: int = MOST_VALUES) -> T:
    """Decode JSON into `shape`, if it has at most `most` values.

    Brackets and commas are counted before decoding, including those within texts. Each value is the first in
    a bracket, or follows a comma.

    Raises:
        TooManyValuesError: the JSON has more values.
        ValueError: `body` is not JSON, or has another shape; the message is the reason.
    """
    if sum(map(body.count, _OPENS_OR_SEPARATES)) > most:
        raise TooManyValuesError(most)
    try:
        value = msgspec.json.decode(body)
        *_, deepest = levels_within(value)
        if deepest:
            raise RecursionError
        return msgspec.convert(value, shape)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    except msgspec.DecodeError as error:
        at_byte = _AT_BYTE.search(str(error))
        if at_byte and (no_number := _NO_NUMBER.match(body, int(at_byte[1]))):
            why = f"{no_number[0].decode()} at byte {at_byte[1]} is not a number in JSON"
            raise ValueError(why) from None
        raise ValueError(one_line(error)) from None


def number(value: object) -> float | None:
    """Return a number from Flink's text. None: not measured (Flink reports NaN), or no number."""
    try:
        parsed = float(str(value))
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None
