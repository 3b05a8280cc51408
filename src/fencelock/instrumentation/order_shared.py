"""Share orders of locks with other processes, by one key of a server.

Rules of this file:

- A new order is written, and all are read, by one script: of two processes whose orders meet, the
  one that comes later reads what the earlier one wrote.
- The key has a bounded number of entries and a TTL, and values of other programs are ignored.
- A thread sends new orders, and ends once all of them are sent.
- Exchanges follow each other: once one is done, all that was added before is written, and all that
  was learned is reported, also by a thread that had begun earlier.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Final

from fencelock._core.keys import orders_key
from fencelock._io.threads import run_blocking
from fencelock._runtime.log import log
from fencelock._runtime.mutex import started
from fencelock.errors import FencelockError
from fencelock.instrumentation.order_graph import READ, WRITE, Order, OrderStep
from fencelock.scripts import ORDERS

ENTRIES_MAX: Final = 2000
# Services that are deployed once a week are compared, too.
TTL_MS: Final = 7 * 86400 * 1000
PLACE_CHARS_MAX: Final = 300

Learn = Callable[[Order, OrderStep], None]


class SharedOrders:
    """The orders of all processes that share a server and a prefix."""

    def __init__(self, client: Any, learn: Learn) -> None:
        shared = getattr(client, "__shared__", None)
        port, prefix = shared() if shared is not None else (None, "")
        if port is None or not hasattr(port, "server_timeout"):
            raise TypeError(f"client must be a fencelock.Client, not {client!r}")
        if getattr(port, "nodes", ()):
            text = "client must be of one server, Sentinels or a Cluster, not of a quorum"
            raise ValueError(text)
        self._port: Any = port
        self._key = orders_key(prefix)
        self._learn = learn
        self._new: dict[Order, OrderStep] = {}
        self._lock = threading.RLock()
        self._exchanging = threading.RLock()  # a report's callback may exchange again
        self._sending = False

    def add(self, order: Order, seen: OrderStep) -> None:
        """Have an order sent by a thread."""
        with self._lock:
            self._new[order] = seen
            if self._sending:
                return
            self._sending = True
        thread = threading.Thread(target=self._send, name="fencelock-orders")
        if started(thread) is not None:
            self._sending = False  # the next new order tries again

    def _send(self) -> None:
        try:
            while self._goes_on():
                self.exchange()
        except FencelockError as error:
            log.warning("orders of locks are not shared for now: %s", error)
        finally:
            self._sending = False

    def _goes_on(self) -> bool:
        with self._lock:
            self._sending = bool(self._new)
            return self._sending

    def exchange(self) -> None:
        """Write what is new, and learn all that is known there."""
        with self._exchanging:
            with self._lock:
                new, self._new = self._new, {}
            words: list[object] = []
            for order, seen in new.items():
                places = (seen.held_at, seen.wanted_at)
                held, wanted = ([place[-PLACE_CHARS_MAX:] for place in each] for each in places)
                words += [order, (held, wanted, seen.who)]
            port = self._port
            until = port.now() + port.server_timeout
            packed = (json.dumps(word).encode() for word in words)
            args = (b"%d" % TTL_MS, b"%d" % ENTRIES_MAX, *packed)
            try:
                reply = run_blocking(port.ask(ORDERS, (self._key,), args, until))
            except BaseException:
                with self._lock:
                    self._new = {**new, **self._new}
                raise
            for name, value in zip(reply[::2], reply[1::2], strict=True):
                found = _parsed(name, value)
                if found is not None:
                    self._learn(*found)


def _parsed(name: bytes, value: bytes) -> tuple[Order, OrderStep] | None:
    """Return an entry; None when another program wrote it."""
    try:
        first, second, held, wanted, by_name = json.loads(name)
        held_at, wanted_at, who = json.loads(value)
        texts = (first, second, who, *held_at, *wanted_at)
    except (ValueError, TypeError):
        return None
    if not all(isinstance(text, str) for text in texts) or not {held, wanted} <= {READ, WRITE}:
        return None
    order = Order(first, second, held, wanted, bool(by_name))
    return order, OrderStep(first, second, tuple(held_at), tuple(wanted_at), who)
