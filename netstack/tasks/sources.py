"""Generated and in-memory sources, and the splits of a source's input.

When a job begins, the input of each source is divided into one split per subtask. A split never changes and
can be read by any subtask. So if a job restarts with more subtasks than splits, some subtasks have no work
and end at once::

    3 subtasks    splits 0 of 3, 1 of 3 and 2 of 3, at the positions 17, 20 and 4
    then 2        subtask 0: [0 of 3, 2 of 3]     subtask 1: [1 of 3]

(Flink: the splits of a source, redistributed like the list state of ``SourceOperator``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from buffers import DEFAULT_MAX_RECORD_BYTES, HEADER_BYTES, RecordBlock

from ..exchange.java_hash import hash_binary, hash_longs, hash_utf8
from ..scenarios.scenario import KEY_BYTES, Keys
from ..scenarios.user_code import KeyHash, Source, SourceReader

__all__ = [
    "CollectionReader",
    "CollectionSource",
    "GeneratedSource",
    "leading_bytes",
    "payload_hash",
    "skip",
    "text_hash",
]

BLOCK_BYTES = 1 << 18
"""Number of bytes that a generated source creates at a time, but at least one record."""

BLOCK_RECORDS = 512
"""Maximum number of records that a generated source creates at a time."""

FILLER = 0x2E
"""Value of the bytes of a generated record after its key, and of padding bytes of emitted records."""

_FILLING = bytes([FILLER])

LENGTHS = 1024
"""Number of equally likely lengths of records that differ in length."""


def skip(reader: SourceReader | SplitReader, position: int) -> None:
    """Skip the first ``position`` records of a new reader.

    If the reader has no `seek`, this takes as long as reading the records, since they are read and dropped.

    Raises:
        ValueError: if ``position`` is negative.
        SourceError: if the records cannot be read.
    """
    seek: Callable[[int], None] | None = getattr(reader, "seek", None)
    if seek is not None:
        seek(position)
        return
    check_position(position)
    while position:
        block = reader.read(min(position, BLOCK_RECORDS))
        if block is None:
            return
        position -= len(block)


def check_position(position: int) -> None:
    """Check that a position in an input is not negative.

    Raises:
        ValueError: if it is negative.
    """
    if position < 0:
        raise ValueError(f"position is {position}, but it must be 0 or more")


class GeneratedSource:
    """Endless source of records that begin with a random 64-bit key.

    Args:
        record_bytes: Length of a record in bytes, without its length header; at least 8.
        seed: Seed of the keys. Equal seeds generate equal records, if subtask and length are equal too.
        keys: Number and frequencies of the keys; None: any 64-bit number.
        spread: Relative standard deviation of the length, which is then log-normal; 0: equal lengths.
        blank: Whether no operator reads the records, so that they need no bytes. Only for equal lengths.

    Raises:
        ValueError: if ``record_bytes`` is too small for the key, or blank records have a spread.
    """

    def __init__(
        self,
        record_bytes: int,
        seed: int,
        keys: Keys | None = None,
        *,
        spread: float = 0.0,
        blank: bool = False,
    ) -> None:
        if record_bytes < KEY_BYTES:
            raise ValueError(f"record_bytes is {record_bytes}, less than the {KEY_BYTES} of the key")
        if blank and spread:
            raise ValueError(f"the spread is {spread}, but blank records have one length")
        self._record_bytes = record_bytes
        self._lengths = _quantiles(record_bytes, spread) if spread else None
        self._seed = seed
        self._keys = None if keys is None or blank else np.cumsum(key_shares(keys))
        self._blank = blank

    @property
    def parallelism_hint(self) -> None:
        """Return None, since any number of subtasks is possible."""
        return None

    def open(self, subtask: int, parallelism: int) -> GeneratedReader:
        """Return the endless reader of one subtask. The records do not depend on ``parallelism``."""
        return GeneratedReader(
            self._record_bytes, self._seed, subtask, self._keys, self._lengths, blank=self._blank
        )

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's Long hash code of each record's key."""
        return hash_longs(leading_bytes(block, KEY_BYTES).view(">i8").ravel())


def _quantiles(mean: int, spread: float) -> NDArray[np.int64]:
    """Return equally likely lengths, log-normal with a mean and a relative standard deviation."""
    sigma = sqrt(log1p(spread * spread))
    middles = (np.arange(LENGTHS) + 0.5) / LENGTHS
    lengths = np.exp(sigma * np.array([NormalDist().inv_cdf(each) for each in middles]))
    rounded = np.rint(lengths * (mean / lengths.mean()))
    bounded: NDArray[np.int64] = np.clip(rounded, KEY_BYTES, DEFAULT_MAX_RECORD_BYTES).astype(np.int64)
    return bounded


def key_shares(keys: Keys) -> NDArray[np.float64]:
    """Return the frequency of each key, by its number; the sum is 1."""
    shares = np.arange(1, keys.number + 1, dtype=np.float64) ** -keys.zipf
    named = np.array(keys.most_frequent[: keys.number])
    rest = shares[len(named) :]
    if len(rest):
        rest *= (1 - named.sum()) / rest.sum()
    shares[: len(named)] = named
    normalized: NDArray[np.float64] = shares / shares.sum()
    return normalized


class GeneratedReader:
    """Generates the records of one subtask in blocks; a read returns a slice of the current block.

    `cumulated` holds the cumulative frequency of each key, by its number; None: keys are any 64-bit numbers.
    `lengths` are the equally likely lengths of a record; None: all have `record_bytes`. With `blank`, the
    records have lengths but no bytes.
    """

    __slots__ = (
        "_blank", "_block", "_cumulated", "_generator", "_lengths", "_position", "_seed", "_sizes",
        "_template",
    )  # fmt: skip

    def __init__(
        self,
        record_bytes: int,
        seed: int,
        subtask: int,
        cumulated: NDArray[np.float64] | None = None,
        lengths: NDArray[np.int64] | None = None,
        *,
        blank: bool = False,
    ) -> None:
        self._cumulated = cumulated
        self._blank = blank
        stride = record_bytes + HEADER_BYTES
        count = max(1, min(BLOCK_RECORDS, BLOCK_BYTES // stride))
        if blank:
            self._template = RecordBlock.blank(count, stride)
        else:
            self._template = RecordBlock.from_matrix(np.full((count, record_bytes), FILLER, dtype=np.uint8))
        self._seed = [seed, subtask]
        self._lengths = lengths
        self._generator = np.random.Generator(np.random.PCG64(self._seed))
        self._sizes = np.random.Generator(np.random.PCG64([*self._seed, 1]))
        self._position = count
        self._block: RecordBlock | None = None

    def read(self, max_records: int) -> RecordBlock:
        """Return the next 1 .. ``max_records`` records; there is no end."""
        if self._block is None or self._position == len(self._block):
            self._block, self._position = self._generate(), 0
        start = self._position
        self._position = min(start + max_records, len(self._block))
        return self._block[start : self._position]

    def seek(self, position: int) -> None:
        """Move to a position; takes the same time for any distance.

        Raises:
            ValueError: if ``position`` is negative.
        """
        check_position(position)
        count = len(self._template)
        blocks, within = divmod(position, count)
        # A key takes one step of the bit generator, drawn as 8 bytes or as a number from 0 to 1.
        self._generator = np.random.Generator(np.random.PCG64(self._seed).advance(blocks * count))
        self._sizes = np.random.Generator(np.random.PCG64([*self._seed, 1]).advance(blocks * count))
        self._block, self._position = self._generate(), within

    def close(self) -> None:
        """Release the block."""
        self._block = None

    def _generate(self) -> RecordBlock:
        template = self._template
        if self._blank:
            return template
        # A new array each time: slices of the previous one may still be in transit.
        count, stride = len(template), template.stride
        if self._lengths is not None:
            return self._of_lengths(self._lengths[(self._sizes.random(count) * LENGTHS).astype(np.int64)])
        data = template.data.copy()
        keys = np.frombuffer(self._draw(count), dtype=np.uint8)
        key_columns = slice(HEADER_BYTES, HEADER_BYTES + KEY_BYTES)
        data.reshape(count, stride)[:, key_columns] = keys.reshape(count, KEY_BYTES)
        return RecordBlock(data.data.toreadonly(), len(data), count, stride)

    def _of_lengths(self, lengths: NDArray[np.int64]) -> RecordBlock:
        keys = self._draw(len(lengths))
        starts = range(0, len(keys), KEY_BYTES)
        return RecordBlock.from_payloads(
            [
                keys[start : start + KEY_BYTES].ljust(length, _FILLING)
                for start, length in zip(starts, lengths.tolist(), strict=True)
            ]
        )

    def _draw(self, count: int) -> bytes:
        """Return the bytes of `count` keys."""
        if self._cumulated is None:
            return self._generator.bytes(count * KEY_BYTES)
        chosen = np.searchsorted(self._cumulated, self._generator.random(count), side="right")
        return np.minimum(chosen, len(self._cumulated) - 1).astype(">i8").tobytes()


class CollectionSource:
    """Records in memory, for examples and tests.

    Raises:
        TypeError: if a partition is a single record, or a record is not bytes.

    Args:
        partitions: The payloads of each partition; a subtask takes partitions ``subtask``,
            ``subtask + parallelism``, and so on.
        key_hash: Java's hash code of each record's key. By default the whole payload is the key, as a byte
            array (`payload_hash`), unless an operator with keyed state declares another key. For text use
            `text_hash`.
    """

    def __init__(self, partitions: Sequence[Sequence[bytes]], key_hash: KeyHash | None = None) -> None:
        self._partitions = [_partition(payloads) for payloads in partitions]
        self._key_hash = key_hash or payload_hash
        self.gives_keys = key_hash is not None

    @property
    def parallelism_hint(self) -> int:
        """One subtask for each partition, but at least one."""
        return max(1, len(self._partitions))

    def open(self, subtask: int, parallelism: int) -> CollectionReader:
        """Return a reader of one subtask's partitions, one after the other."""
        read = self._partitions[subtask::parallelism]
        return CollectionReader([payload for payloads in read for payload in payloads])

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key."""
        return self._key_hash(block)


def _partition(payloads: Sequence[bytes]) -> tuple[bytes, ...]:
    if isinstance(payloads, bytes | bytearray | memoryview | str | int):  # an int: a byte of one record
        raise TypeError(
            "CollectionSource needs a list of partitions, each a list of records, but got the record "
            f"{payloads!r:.40}; for one partition, write CollectionSource([records])"
        )
    for payload in payloads:
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TypeError(f"a record must be bytes, but CollectionSource got {payload!r:.40}")
    return tuple(payloads)


class CollectionReader:
    """Reads payloads in memory."""

    __slots__ = ("_block", "_position")

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self._block = RecordBlock.from_payloads(payloads)
        self._position = 0

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records, or None at the end."""
        start = self._position
        if start == len(self._block):
            return None
        self._position = min(start + max_records, len(self._block))
        return self._block[start : self._position]

    def seek(self, position: int) -> None:
        """Move to a position.

        Raises:
            ValueError: if ``position`` is negative.
        """
        check_position(position)
        self._position = min(position, len(self._block))

    def close(self) -> None:
        """Drop the unread records."""
        self._position = len(self._block)


def payload_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Return the hash code of each whole payload as a byte array (Java's ``Arrays.hashCode``)."""
    return hash_binary(*_joined(block))


def text_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Decode each whole payload as UTF-8 and return the hash code that the text has as a Java String."""
    return hash_utf8(*_joined(block))


def leading_bytes(block: RecordBlock, count: int) -> NDArray[np.uint8]:
    """Return a copy of the first ``count`` bytes of each payload, with a contiguous row for each record.

    Raises:
        ValueError: if a payload is shorter.
    """
    shortest = block.stride or int(block.sizes().min(initial=HEADER_BYTES + count))
    if shortest < HEADER_BYTES + count:
        raise ValueError(
            f"a record of {shortest - HEADER_BYTES} bytes is too short for a key of {count} bytes"
        )
    if block.stride:
        leading_bytes = block.data.reshape(-1, block.stride)[:, HEADER_BYTES : HEADER_BYTES + count]
        return np.ascontiguousarray(leading_bytes)
    leading: NDArray[np.uint8] = block.data[
        block.starts[:, None] + np.arange(HEADER_BYTES, HEADER_BYTES + count)
    ]
    return leading


def _joined(block: RecordBlock) -> tuple[bytes, NDArray[np.int64]]:
    """Return all payloads back to back, and the start of each."""
    sizes = block.sizes() - HEADER_BYTES
    return b"".join(block.payloads()), np.concatenate(([0], np.cumsum(sizes)))


OpenSplit = Callable[[int, int], SourceReader]
"""Opens a split of a source's input, by its number and the number of splits."""


class Split(NamedTuple):
    """Split number `part` of `of`; the first `position` records have been emitted."""

    part: int
    of: int
    position: int


class SplitReader:
    """Reads several splits round robin, one block at a time; a `SourceReader` without `seek`.

    Raises:
        SourceError: if a split cannot be opened, or cannot be read from its position on.
        ValueError: if a position is negative.
    """

    def __init__(self, splits: Sequence[Split], open_split: OpenSplit) -> None:
        self._splits = list(splits)
        self._readers: list[SourceReader] = []
        try:
            for split in splits:
                self._readers.append(open_split(split.part, split.of))
                skip(self._readers[-1], split.position)
        except BaseException:
            self.close()
            raise
        self._left = list(range(len(splits)))  # splits that have not ended, the next one first
        self._latest = 0

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records from the split that is next in turn; None when all splits have ended."""
        while self._left:
            place = self._left.pop(0)
            block = self._readers[place].read(max_records)
            if block is not None:
                self._left.append(place)
                self._latest = place
                split = self._splits[place]
                self._splits[place] = split._replace(position=split.position + len(block))
                return block
        return None

    def splits(self, unsent: int) -> list[Split]:
        """Return the splits with their positions. The last `unsent` records of the latest block do not count,
        since they were not emitted yet.
        """
        splits = list(self._splits)
        split = splits[self._latest]
        splits[self._latest] = split._replace(position=split.position - unsent)
        return splits

    def close(self) -> None:
        """Close all readers."""
        for reader in self._readers:
            reader.close()


def opener_of(source: Source) -> OpenSplit:
    """Return the function that opens a split of a source after a change of parallelism.

    This is the source's method `open_split`, or `open` if it has none. `open_split` raises a SourceError if
    the records of a split depend on more than its number and the number of splits.
    """
    return cast(OpenSplit, getattr(source, "open_split", source.open))
