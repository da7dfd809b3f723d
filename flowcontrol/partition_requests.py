"""Requests for a partition that does not exist yet: waiting at the producer, retries of the consumer.

::

    consumer                                        producer
    PartitionRequest ---------------------------->  no such partition: a listener waits for it
                                                    if it is created within 10 s: serve the request
                                                    otherwise: drop the listener
    total wait < 2 * maximum backoff? <-----------  ErrorResponse for the channel: partition not found
      yes: PartitionRequest again; no: the channel fails

The *total wait* adds up the timeouts of all listeners of this request. Since the producer has already waited,
the consumer sends the request again at once. Other channels are not affected. The rules are those of Flink's
RemoteInputChannel and PartitionRequestListener. In older versions of Flink, the producer answers at once, and
the consumer waits between retries, longer each time.
"""

from __future__ import annotations

from .errors import RemoteProtocolError
from .messages import PARTITION_NOT_FOUND, ErrorResponse, PartitionRequest

__all__ = ["MAX_REQUEST_BACKOFF_S", "RequestBackoff", "RequestListeners"]

LISTENER_TIMEOUT_S = 10.0
"""Time for which a producer waits for a partition (Flink's taskmanager.network.partition-request-timeout)."""

MAX_REQUEST_BACKOFF_S = 10.0
"""The default of Flink's taskmanager.network.request-backoff.max."""


class RequestBackoff:
    """Retries of a consumer; `waited_s`: seconds that the producer's listeners have waited so far.

    With a timeout of 0 the producer has no listeners, and the consumer does not retry.
    """

    __slots__ = ("_listener_timeout_s", "_max_s", "waited_s")

    def __init__(
        self, max_s: float = MAX_REQUEST_BACKOFF_S, listener_timeout_s: float = LISTENER_TIMEOUT_S
    ) -> None:
        self._max_s = max_s
        self._listener_timeout_s = listener_timeout_s
        self.waited_s = 0.0

    def increase(self) -> bool:
        """Record that a listener timed out; returns whether to send the request again."""
        self.waited_s += self._listener_timeout_s
        return self._listener_timeout_s > 0 and self.waited_s < 2 * self._max_s


class RequestListeners:
    """The requests that wait at a producer, in the order of arrival.

    Invariant: all requests have the same timeout, so the first request is the first to time out.
    """

    __slots__ = ("_timeout_s", "_waiting")

    def __init__(self, timeout_s: float = LISTENER_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._waiting: dict[int, tuple[float, PartitionRequest]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def deadline(self) -> float | None:
        """Time at which the first request times out, in seconds; None if no request waits."""
        return next((deadline for deadline, _ in self._waiting.values()), None)

    def wait(self, request: PartitionRequest, now: float) -> None:
        """Add `request` to the waiting requests.

        Raises:
            RemoteProtocolError: if a request of this channel waits already.
        """
        if request.channel in self._waiting:
            raise RemoteProtocolError(f"channel {request.channel} was requested twice")
        self._waiting[request.channel] = now + self._timeout_s, request

    def take(self, channel: int) -> PartitionRequest | None:
        """Remove and return the waiting request of `channel`, or None."""
        _, request = self._waiting.pop(channel, (0.0, None))
        return request

    def expire(self, now: float) -> list[ErrorResponse]:
        """Drop the requests that have timed out; returns the error responses for their consumers."""
        late = [channel for channel, (deadline, _) in self._waiting.items() if deadline <= now]
        for channel in late:
            del self._waiting[channel]
        return [ErrorResponse(PARTITION_NOT_FOUND, channel) for channel in late]

    def clear(self) -> None:
        """Drop all requests because the connection is closed."""
        self._waiting.clear()
