"""Locks without a server, for tests: each server is replaced by one inside this process.

Rules of this file:

- What runs is what runs with a server: the same flows and the same scripts, over fakeredis. So
  threads and tasks of this process exclude each other, fences grow, waiters are served in order.
- Other processes are not excluded, and nothing is left afterwards.
- Each server that a program names is replaced by one of its own; a Cluster or a quorum by one.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from fencelock._io import process_ports
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.sources import kinds

Function = TypeVar("Function", bound=Callable[..., Any])


class inactive(contextlib.ContextDecorator):  # noqa: N801 - it is called as a function
    """Replace every server by one inside this process, in a block or for a decorated test.

    It needs ``fencelock[testing]`` and no server program. Clients of both kinds work as they do
    with a server, at some milliseconds a call: their threads and tasks exclude each other, and
    those of other processes not. It applies to clients that are made in the block, and to those of
    one server that were made before. Everything is free at the beginning.

    Raises:
        ImportError: fakeredis is missing.
        RuntimeError: it is active already.
    """

    def __call__(self, function: Function) -> Function:
        """Decorate a function or a coroutine function.

        Raises:
            TypeError: it is a generator, which runs after its call: enter it there with ``with``.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "inactive() decorates no generator: enter it there, by `with inactive():`"
            )
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @wraps(function)
        async def call(*args: Any, **given: Any) -> Any:
            with self:
                return await function(*args, **given)

        return call  # type: ignore[return-value]  # it takes what the function takes

    def __enter__(self) -> None:
        """Replace the servers, and free everything."""
        if kinds.stand_in is not None:
            raise RuntimeError("inactive() is active already, and cannot be entered again")
        kinds.stand_in = _maker()
        _hang_up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Lead to the servers again."""
        kinds.stand_in = None
        _hang_up()


def _maker() -> Any:
    try:
        import fakeredis  # noqa: PLC0415 - of an extra
        import lupa  # noqa: F401, PLC0415 - as above: it runs the scripts
    except ImportError as error:
        text = "inactive() needs fakeredis and lupa: install the extra fencelock[testing]"
        raise ImportError(text) from error
    servers: dict[str, Any] = {}

    def make(label: str, asynchronous: bool) -> Any:  # noqa: FBT001 - as ``kinds.stand_in``
        server = servers.setdefault(label, fakeredis.FakeServer())
        kind = fakeredis.FakeAsyncRedis if asynchronous else fakeredis.FakeRedis
        return kind(server=server)

    return make


def _hang_up() -> None:
    """Close idle connections: the next ones lead to the other side."""
    for port in process_ports.watched(BlockingPort):
        port.pool.drop()
