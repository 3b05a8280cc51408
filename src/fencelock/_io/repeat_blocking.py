"""Run a flow every few seconds during a long operation, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

from fencelock._runtime.log import log
from fencelock._runtime.mutex import started

Flow = Callable[[], Coroutine[Any, Any, None]]


class RepeatingThread:
    """Runs a blocking flow every ``seconds`` in a thread that ends with the block."""

    def __init__(self, flow: Flow, seconds: float, run: Callable[[Any], None]) -> None:
        self._flow = flow
        self._seconds = seconds
        self._run = run
        self._ended = threading.Event()

    async def __aenter__(self) -> None:
        """Start the thread; if none can be started, the block runs without it."""
        thread = threading.Thread(target=self._repeat, name="fencelock-proof", daemon=True)
        trouble = started(thread)
        if trouble is not None:
            log.warning(
                "no thread could be started to give this party's proof of life: %s", trouble
            )

    async def __aexit__(self, *_: object) -> None:
        """Have the thread end; it may still be at its last run."""
        self._ended.set()

    def _repeat(self) -> None:
        while not self._ended.wait(self._seconds):
            self._run(self._flow())
