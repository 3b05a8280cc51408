"""Threads that renew the leases of one node each, so that a silent node holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from weakref import ref

from fencelock.log import log
from fencelock.mutex import mutex, started

if TYPE_CHECKING:
    from fencelock._ports.cluster import ClusterPort


class Beside:
    """Places that are being asked, each by a thread that ends with its flow."""

    def __init__(self, port: ClusterPort) -> None:
        self._lock = mutex()
        self._busy: set[object] = set()
        self._ref = ref(port)  # only a running thread keeps the port alive

    def run(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a flow in a thread; False while one runs for this place, or none can be started."""
        with self._lock:
            if place in self._busy:
                return False
            self._busy.add(place)
        thread = threading.Thread(
            target=self._run, args=(place, flow), name="fencelock-leases-part", daemon=True
        )
        trouble = started(thread)
        if trouble is not None:
            self._end(place)
            log.warning(
                "leases of %s cannot be renewed until a thread can be started: %s", place, trouble
            )
        return trouble is None

    def _run(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
        from fencelock._ports.blocking import run_blocking  # noqa: PLC0415 - they need each other

        try:
            run_blocking(flow())
        except Exception:
            log.exception("renewing the leases of %s failed; retrying", place)
        finally:
            self._end(place)
            port = self._ref()
            if port is not None:
                port.renewed()

    def _end(self, place: object) -> None:
        with self._lock:
            self._busy.discard(place)
