"""A table store in a few lines, to test by: one file a family and flush, one level below level 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from netstack import StateError, TableOptions

Entries = dict[bytes, bytes | None]


@dataclass(frozen=True)
class ModelTable:
    name: str
    level: int
    family: str
    age: int  # of two files the one with more has the newer entries
    entries: tuple[tuple[bytes, bytes | None], ...]

    def read(self) -> bytes:
        return msgspec.msgpack.encode((self.family, self.age, self.entries))

    @property
    def size(self) -> int:
        return len(self.read())


@dataclass
class ModelFamily:
    store: ModelStore
    name: str

    def __post_init__(self) -> None:
        self.written: Entries = {}

    def put(self, key: bytes, value: bytes) -> None:
        self.written[key] = value

    def remove(self, key: bytes) -> None:
        self.written[key] = None

    def get(self, key: bytes) -> bytes | None:
        return self._entries().get(key)

    def items(self, first: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        for key, value in sorted(self._entries().items()):
            if value is not None and first <= key and (stop is None or key < stop):
                yield key, value

    def _entries(self) -> Entries:
        entries: Entries = {}
        for table in sorted(self.store.tables, key=lambda table: table.age):
            if table.family == self.name:
                entries.update(table.entries)
        return entries | self.written


@dataclass
class ModelView:
    files: Sequence[ModelTable]
    metadata: dict[str, bytes]
    released: bool = False

    @property
    def metadata_size(self) -> int:
        return len(self.metadata["levels"])

    def release(self) -> None:
        self.released = True


class ModelStore:
    """A `TableStore`; `tables` are its files."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self.tables: list[ModelTable] = []
        self.views: list[ModelView] = []
        self.closed = False
        self._families: dict[str, ModelFamily] = {}
        self._number = 0
        self._age = 0

    def family(self, name: str) -> ModelFamily:
        return self._families.setdefault(name, ModelFamily(self, name))

    def unflushed_bytes(self) -> int:
        written = [item for family in self._families.values() for item in family.written.items()]
        return sum(len(key) + len(value or b"") for key, value in written)

    def flush(self) -> int:
        new = []
        for name, family in self._families.items():
            if family.written:
                self._age += 1
                new.append(self._table(0, name, self._age, family.written))
                family.written = {}
        self.tables += new
        return sum(table.size for table in new)

    def _table(self, level: int, family: str, age: int, entries: Entries) -> ModelTable:
        self._number += 1
        return ModelTable(f"{self._number}.table", level, family, age, tuple(sorted(entries.items())))

    def view(self) -> ModelView:
        levels = {table.name: table.level for table in self.tables}
        self.views.append(ModelView(list(self.tables), {"levels": msgspec.msgpack.encode(levels)}))
        return self.views[-1]

    def _full(self) -> list[str]:
        level0 = [table.family for table in self.tables if table.level == 0]
        return sorted(name for name in set(level0) if level0.count(name) >= self.options.level0_files)

    def wants_compaction(self) -> bool:
        return bool(self._full())

    def compact(self) -> int:
        full = self._full()
        merged = [table for table in self.tables if table.family in full]
        written = []
        for name in full:
            tables = sorted((table for table in merged if table.family == name), key=lambda table: table.age)
            entries: Entries = {}
            for table in tables:
                entries.update(table.entries)
            kept: Entries = {key: value for key, value in entries.items() if value is not None}
            written.append(self._table(1, name, tables[-1].age, kept))
        self.tables = [table for table in self.tables if table not in merged] + written
        return sum(table.size for table in merged + written)

    def restore(self, files: Iterable[tuple[str, bytes]], metadata: Mapping[str, bytes]) -> None:
        levels = msgspec.msgpack.decode(metadata["levels"], type=dict[str, int])
        for name, data in files:
            try:
                family, age, entries = msgspec.msgpack.decode(
                    data, type=tuple[str, int, tuple[tuple[bytes, bytes | None], ...]]
                )
            except msgspec.DecodeError as error:
                raise StateError("no table") from error
            self.tables.append(ModelTable(name, levels[name], family, age, entries))
            self._age = max(self._age, age)
            self._number = max(self._number, int(name.partition(".")[0]))
            self.family(family)

    def close(self) -> None:
        self.closed = True


class ModelStores:
    """Opens stores, and keeps them in `opened` for assertions."""

    def __init__(self) -> None:
        self.opened: list[ModelStore] = []

    def open(self, name: str, options: TableOptions) -> ModelStore:
        self.opened.append(ModelStore(options))
        return self.opened[-1]
