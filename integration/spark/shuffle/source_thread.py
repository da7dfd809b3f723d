"""The thread of a task that reads its input, cuts it into pieces and writes them.

It begins before the peers are there, since to meet them may take a second. Until then it holds the pieces,
but not more than a given number of bytes of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from netstack import Transport, TransportError

from .cutting import Cutter, Pieces

_JOIN_S = 1.0


class SourceThread:
    """Sends the rows of batches over a transport; to be started once.

    Args:
        batches: The input; nobody else reads it.
        cutter: Cuts it.
        transport: Listens; is connected when `connected` is called.
        early_bytes: Most bytes held until then, unless a single list of pieces has more.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], cutter: Cutter, transport: Transport, early_bytes: int
    ) -> None:
        self.error: BaseException | None = None
        """Why it ended before its input did; not the transport's errors, which the reader is told as well."""
        self.rows = 0
        """Rows read so far."""
        self._batches = batches
        self._cutter = cutter
        self._transport = transport
        self._held: deque[Pieces] = deque()
        self._early_bytes = early_bytes
        self._connected = threading.Event()
        self._stopped = False
        # A read from Spark cannot be interrupted: such a thread ends with the process.
        self._thread = threading.Thread(target=self._run, name="netstack-shuffle-source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def connected(self) -> None:
        """The peers are there: what is held may be written."""
        self._connected.set()

    def join(self) -> None:
        """Wait until all has been written."""
        self._thread.join()

    def stop(self) -> None:
        """Give up, once the transport is closed; wait a moment for the thread to notice."""
        self._stopped = True
        self._connected.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            for batch in self._batches:
                self.rows += batch.num_rows
                for pieces in self._cutter.add(batch):
                    self._send(pieces)
            self._send(self._cutter.flush())
            self._write_held()
            if not self._stopped:
                self._transport.finish_writing()
        except TransportError:
            pass  # whoever reads from the transport is told as well
        except BaseException as error:
            self.error = error
            self._transport.close(error)

    def _send(self, pieces: Pieces) -> None:
        if self._connected.is_set():
            self._write_held()
            self._write(pieces)
            return
        self._held.append(pieces)
        self._early_bytes -= sum(len(piece) for _, piece in pieces)
        if self._early_bytes <= 0:
            self._write_held()

    def _write_held(self) -> None:
        self._connected.wait()
        while self._held:
            self._write(self._held.popleft())

    def _write(self, pieces: Pieces) -> None:
        if pieces and not self._stopped:
            self._transport.write(pieces)
