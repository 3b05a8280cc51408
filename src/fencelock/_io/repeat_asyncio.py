"""Run a flow every few seconds during a long operation, in a task of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fencelock._io.repeat_blocking import Flow


class RepeatingTask:
    """Runs a flow every ``seconds`` in a task that ends with the block."""

    def __init__(
        self, flow: Flow, seconds: float, spawn: Callable[[Any, str], asyncio.Task[None]]
    ) -> None:
        self._flow = flow
        self._seconds = seconds
        self._spawn = spawn
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Start the task."""
        self._task = self._spawn(self._repeat(), "fencelock-proof")

    async def __aexit__(self, *_: object) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._flow()
