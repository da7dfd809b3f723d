"""What answers to the paths of Flink's REST API: a cluster that is asked now, or a recording of one."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ...errors import TooManyValuesError
from ...files.reading import DEEPEST, levels_within, one_line

WITH_VALUES = "/metrics?get="
"""In the path of a request for values of metrics, whose names follow."""


MOST_VALUES = 1 << 20
"""Values of the largest answer that is read: 32 for each subtask at Flink's greatest parallelism."""

_OPENS_OR_SEPARATES = (b"[", b"{", b",")
"""A value is the first within one of the brackets, or follows a comma."""

_AT_BYTE = re.compile(r"\(byte (\d+)\)$")
"""The end of a message of msgspec's: where JSON is malformed."""

_NO_NUMBER = re.compile(rb"NaN|Infinity")

T = TypeVar("T")


class Refused(NamedTuple):
    """An answer that is none: its status, and what is said of it."""

    code: int
    text: str


def decode_json(body: bytes, shape: type[T], most: int = MOST_VALUES) -> T:
    """Decode the JSON of an answer or a recording into `shape`, if it has at most `most` values.

    Brackets and commas are counted before anything is decoded. Those within texts count too.

    Raises:
        TooManyValuesError: the JSON has more values.
        ValueError: `body` is no JSON, or its JSON has another shape; the message says why.
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
        raise ValueError(f"it is nested too deeply; values go {DEEPEST} deep at most") from None
    except msgspec.DecodeError as error:
        at_byte = _AT_BYTE.search(str(error))
        if at_byte and (no_number := _NO_NUMBER.match(body, int(at_byte[1]))):
            why = f"{no_number[0].decode()} at byte {at_byte[1]} is no number in JSON"
            raise ValueError(why) from None
        raise ValueError(one_line(error)) from None


def number(value: object) -> float | None:
    """Return a value as Flink writes it; None for NaN, the value of a metric that a task does not measure."""
    try:
        parsed = float(str(value))
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None


class Answers(Protocol):
    """A cluster, as far as it can be read."""

    name: str
    """How it is called wherever it is spoken of: its address, or the file."""

    def answer(self, path: str) -> Any | Refused:
        """Return what answers to a path, as JSON.

        Raises:
            FlinkRestError: nobody answers, or not with JSON.
        """

    def pause(self, seconds: float) -> None:
        """Wait until the cluster has gone on for so long."""

    def clock(self) -> float:
        """Return the time of the last answer, in seconds from any moment."""
