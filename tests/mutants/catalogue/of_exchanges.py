"""Defects of exchanges: partitions, gates, channels and what goes between them."""

from ..mutant import Mutant

EXCHANGES = (
    Mutant(
        "announced-size-forgotten",
        "netstack/exchange/remote_channel.py",
        "        self._connection.send(NewBufferSize(self.channel_id, size))\n",
        "        pass\n",
        "a size that was chosen is not announced to the producer",
        ("tests/netstack/test_gate.py",),
    ),
    Mutant(
        "size-ignored-by-the-writer",
        "netstack/exchange/open_buffers.py",
        "        if wanted > 0:\n            builder.trim(max(wanted, minimum))\n",
        "",
        "buffers are filled whatever size was announced",
        ("tests/netstack/test_partition.py",),
    ),
    Mutant(
        "debloating-counts-half",
        "netstack/exchange/remote_channel.py",
        "        return len(self._queue) + self.buffers.announced_backlog\n",
        "        return len(self._queue)\n",
        "debloating does not count what waits at the producer",
        ("tests/netstack/test_gate.py",),
    ),
    Mutant(
        "priority-behind-data",
        "netstack/exchange/gate.py",
        "        if self._urgent and (polled := self.poll_priority(now)) is not None:\n",
        "        if not self._ready and self._urgent and (polled := self.poll_priority(now)) is not None:\n",
        "a gate reads priority events only when there is no data",
        ("tests/netstack/test_gate.py",),
    ),
    Mutant(
        "gate-unfair",
        "netstack/exchange/gate.py",
        "            item, more = channel.poll()\n"
        "            if more:\n                ready.append(channel)\n",
        "            item, more = channel.poll()\n"
        "            if more:\n                ready.appendleft(channel)\n",
        "a gate reads one channel until it is empty, and not all in turns",
        ("tests/netstack/test_gate.py",),
    ),
    Mutant(
        "resumed-and-not-looked-at",
        "netstack/exchange/local_channel.py",
        "        self._subpartition.resume()\n        self._look_at_front()\n        self._look()\n",
        "        self._subpartition.resume()\n        self._look_at_front()\n",
        "a local channel does not look for data when it is resumed",
        ("tests/netstack/test_input_channel.py",),
    ),
    Mutant(
        "in-flight-not-persisted",
        "netstack/exchange/channel.py",
        "        if self.persist is not None and self._persisting is not None:\n",
        "        if self.persist is not None and self._persisting is not None and len(data) % 3:\n",
        "some of the data that comes before a late barrier is not kept",
        ("tests/netstack/test_in_flight.py",),
    ),
    Mutant(
        "rest-of-a-record-lost",
        "netstack/exchange/partition.py",
        "                self._unwritten = _Rest(channel, [rest], begun=True)\n"
        "                return False\n",
        "                self._unwritten = _Rest(channel, [_behind(rest, 1)], begun=True)\n"
        "                return False\n",
        "a record that waits for a segment goes on a byte too late",
        ("tests/netstack/test_partition.py",),
    ),
    Mutant(
        "event-before-its-data",
        "netstack/exchange/partition.py",
        "        self._finish_open()\n        consumer = EventConsumer(_event_buffer(event))",
        "        consumer = EventConsumer(_event_buffer(event))",
        "an event is sent while a buffer in front of it is open",
        ("tests/netstack/test_partition.py",),
    ),
    Mutant(
        "key-groups-by-another-rule",
        "netstack/exchange/key_groups.py",
        "    start = (index * max_parallelism + parallelism - 1) // parallelism\n",
        "    start = (index * max_parallelism) // parallelism\n",
        "the ranges of key groups of two subtasks overlap",
        ("tests/netstack/test_key_groups.py",),
    ),
    Mutant(
        "rebalance-always-to-one",
        "netstack/exchange/selectors.py",
        "        self._next = (first + count) % channels\n",
        "        self._next = first\n",
        "each block of records is dealt out from the same channel on",
        ("tests/netstack/test_selectors.py",),
    ),
    Mutant(
        "fraction-owes-nothing-over-blocks",
        "netstack/exchange/selectors.py",
        "        self._owed = float(owed[-1] - whole[-1]) if count else self._owed\n",
        "        self._owed = 0.0\n",
        "an edge that takes a share of the records counts each block for itself",
        ("tests/netstack/test_selectors.py",),
    ),
    Mutant(
        "fraction-owes-one-at-first",
        "netstack/exchange/selectors.py",
        "        self._selector = selector\n        self._owed = 0.0\n",
        "        self._selector = selector\n        self._owed = 1.0 - fraction\n",
        "an edge that takes a share of the records begins with one, in each life of its producer",
        ("tests/netstack/test_selectors.py",),
    ),
    Mutant(
        "credit-sent-late",
        "netstack/exchange/consumer_end.py",
        "        credit = channel.take_credit()\n        if credit:\n",
        "        credit = channel.take_credit()\n        if credit and not channel.blocked:\n",
        "credit that a channel gains while it is blocked is never announced",
        ("tests/netstack/test_connection.py",),
    ),
)
