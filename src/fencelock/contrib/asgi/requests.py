"""Locks that are named by the path or query of a request, and the answer when one is held.

Rules of this file:

- A request that does not get the lock is answered with 409 or 423, a ``Retry-After`` and for how
  long the lock has been held. Nothing else about the holder goes out.
- The lock is held until the handler has ended; in FastAPI, until the response was sent and its
  background tasks have ended. Code that still runs always has it, unless the lease was lost.
- A handler that runs in a thread goes on when its request is cancelled. Its lock waits for it.
- With a blocking client, each wait for a lock and each release has a thread of its own: those of
  the framework are for the handlers of requests that have their locks.
- A template is checked when it is given, before any request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from string import Formatter
from typing import Any, TypeVar

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
except ImportError as _error:
    raise ImportError(
        "locked and hold of fencelock.contrib.asgi need Starlette: install the extra 'asgi'"
    ) from _error
from anyio import CapacityLimiter, to_thread  # Starlette brings it

from fencelock import AsyncClient, AsyncLock, Client, Lock, options
from fencelock._handles.decorator import ends_a_field, literals, name_of
from fencelock._runtime.log import log
from fencelock.aio.lease import AsyncLease
from fencelock.blocking.lease import Lease
from fencelock.contrib.running import RunningFunctions
from fencelock.errors import FencelockError, NotAcquired
from fencelock.options import Seconds
from fencelock.threads import ended

CONFLICT, LOCKED, BAD_REQUEST, INTERNAL_ERROR = 409, 423, 400, 500
RETRY_AFTER_SECONDS = 1.0
ONE_TRY = -1.0

T = TypeVar("T")


class RequestLock:
    """A dependency that holds a lock while a request is handled; ``locked`` makes it.

    ``responses`` has its answers in the form that FastAPI's ``responses=`` takes for OpenAPI.
    """

    def __init__(
        self,
        client: AsyncClient | Client,
        template: str,
        given: dict[str, Any],
        *,
        timeout: Seconds,
        status: int,
        retry_after: Seconds,
    ) -> None:
        if not isinstance(client, (AsyncClient, Client)):
            raise TypeError(f"client must be an AsyncClient or a Client, not {client!r}")
        if status not in {CONFLICT, LOCKED}:
            raise ValueError(f"status must be 409 or 423, not {status!r}")
        self._client, self._template, self._status = client, template, status
        self._names = parameters(template)
        limit = options.acquire_timeout(timeout, blocking=True)
        self._pause = ceil(options.positive("retry_after", retry_after))
        client.lock(template, **given)  # refuses wrong options now
        self._given = {"template": template, **given, "timeout": limit}
        self.responses: dict[int | str, dict[str, Any]] = _responses(status, self._pause)

    async def __call__(self, request: HTTPConnection) -> AsyncIterator[AsyncLease | Lease]:
        """Hold the lock of a request; FastAPI calls it."""
        found = {**request.query_params, **request.path_params}
        missing = [name for name in self._names if name not in found]
        unknown = unknown_to(request.scope.get("route"), missing)
        if unknown:  # the template's mistake: no client can mend it
            text = "locked(%r): the route %s has no parameter %s"
            log.error(text, self._template, request.scope["route"].path, ", ".join(unknown))
            raise HTTPException(INTERNAL_ERROR)
        if missing:
            raise HTTPException(BAD_REQUEST, f"missing parameter: {', '.join(missing)}")
        name = name_of(self._template, [str(found[each]) for each in self._names])
        try:
            lock = self._client.lock(name, **self._given)
        except ValueError as error:  # the options were right: the name is not
            raise HTTPException(BAD_REQUEST, f"no name of a lock: {error}") from error
        if not self._given["timeout"]:  # one try, for which a slow server has time to answer
            _, holds = lock.__shared__()
            holds.options = holds.options._replace(timeout=ONE_TRY)
        try:
            lease = await _enter(lock)
        except NotAcquired:
            raise await self._busy(name) from None
        functions = RunningFunctions(lock).begin()
        try:
            yield lease
        except BaseException as error:
            cancelled = await functions.ended()
            await _leave(lock, error)
            if cancelled and not isinstance(error, asyncio.CancelledError):
                raise asyncio.CancelledError from error
            raise
        await _leave(lock, None)

    async def _busy(self, name: str) -> HTTPException:
        """Return the answer to a request that does not get the lock: how long it has been held."""
        detail: dict[str, Any] = {"error": "busy", "retry_after": self._pause}
        with suppress(FencelockError):  # then that is not known
            if isinstance(self._client, AsyncClient):
                found = await self._client.status(name, waiters=0)
            else:
                found = await _in_thread(partial(self._client.status, name, waiters=0))
            if found.holder is not None:
                detail["held_for"] = round(found.holder.held_for, 1)
        return HTTPException(self._status, detail, {"Retry-After": str(self._pause)})


async def _enter(lock: AsyncLock | Lock) -> AsyncLease | Lease:
    """Enter a lock; a thread that waits for it when its request is cancelled gives it back."""
    if isinstance(lock, AsyncLock):
        return await lock.__aenter__()
    entering = _in_thread(lock.__enter__)
    if await ended(entering):
        if entering.exception() is None:
            await ended(_in_thread(partial(lock.__exit__, None, None, None)))
        raise asyncio.CancelledError
    return entering.result()


async def _leave(lock: AsyncLock | Lock, error: BaseException | None) -> None:
    """Leave a lock that was entered."""
    kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
    if isinstance(lock, AsyncLock):
        await lock.__aexit__(kind, error, trace)
        return
    leaving = _in_thread(partial(lock.__exit__, kind, error, trace))
    if await ended(leaving):
        raise asyncio.CancelledError
    leaving.result()


def _in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Begin a call in a thread that counts for no limit: none waits for another request's."""
    running: asyncio.Future[T] = asyncio.ensure_future(
        to_thread.run_sync(call, limiter=CapacityLimiter(1))
    )
    return running


# FastAPI reads it, and cannot look up the names in the annotations of an object.
RequestLock.__call__.__annotations__["request"] = HTTPConnection


def _responses(status: int, pause: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a dependency as OpenAPI describes them."""
    busy = {"error": "busy", "retry_after": pause, "held_for": 0.8}
    seconds = {"description": "seconds until the next try", "schema": {"type": "integer"}}
    unnamed = "no name of a lock: a parameter is missing, or its value is too long"
    return {
        status: {
            "description": "another request holds the lock",
            "headers": {"Retry-After": seconds},
            "content": {"application/json": {"example": {"detail": busy}}},
        },
        BAD_REQUEST: {
            "description": unnamed,
            "content": {"application/json": {"example": {"detail": "missing parameter: id"}}},
        },
    }


def locked(
    client: AsyncClient | Client,
    template: str,
    *,
    timeout: Seconds = 0,
    status: int = CONFLICT,
    retry_after: Seconds = RETRY_AFTER_SECONDS,
    **given: Any,
) -> RequestLock:
    """Return a dependency of FastAPI that holds a lock while its request is handled.

    ``template`` is the lock's name, such as ``"order:{order_id}"``, with the names of path or query
    parameters; the path goes first. The dependency's value is the lease, that of a ``Client`` for
    ``def`` endpoints. It waits for at most ``timeout`` seconds, not at all by default. When the
    lock is held it answers with ``status``, 409 or 423, with the header ``Retry-After`` of
    ``retry_after`` seconds, 1 by default, and with the seconds that the lock has been held. A
    missing query parameter is answered with 400, and a name that is no parameter of the route with
    500 and a line of the log. The other options are those of the client's
    ``lock``. Its ``responses`` are for the route's, so that OpenAPI shows these answers.

    A request that is cancelled keeps its lock until the functions have ended that it runs in
    threads, such as a ``def`` endpoint: they cannot be cancelled.

    Raises:
        TypeError: ``client`` is no client of ours, or an option of another type.
        ValueError: a template or an option that cannot work.
    """
    return RequestLock(
        client, template, given, timeout=timeout, status=status, retry_after=retry_after
    )


def hold(
    request: HTTPConnection,
    client: AsyncClient | Client,
    template: str,
    *,
    timeout: Seconds = 0,
    status: int = CONFLICT,
    retry_after: Seconds = RETRY_AFTER_SECONDS,
    **given: Any,
) -> Any:
    """Return what holds a lock in an ``async with`` of an endpoint of Starlette; sends nothing.

    The options and errors are those of ``locked``; HTTPException comes from ``async with``.
    """
    dependency = locked(
        client, template, timeout=timeout, status=status, retry_after=retry_after, **given
    )
    return asynccontextmanager(dependency)(request)


def unknown_to(route: Any, names: list[str]) -> list[str]:
    """Return those of some names that are no parameters of a route of FastAPI, which knows them."""
    left = [dependant] if (dependant := getattr(route, "dependant", None)) else []
    if not left:
        return []
    known: set[str] = set()
    for each in left:
        left += each.dependencies
        for field in (*each.path_params, *each.query_params):
            model = getattr(field.field_info.annotation, "model_fields", {})
            known |= {field.name, field.alias, *model}
            known |= {str(inner.alias) for inner in model.values()}
    return [name for name in names if name not in known]


def parameters(template: str) -> tuple[str, ...]:
    """Return the names in a template; ValueError for one that cannot work."""
    if not isinstance(template, str):
        raise TypeError(f"template must be a str such as 'order:{{order_id}}', not {template!r}")
    names = []
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            text = f"template: {{{name}}} must be the name of a path or query parameter"
            raise ValueError(text)
        names.append(name)
    if not all(map(ends_a_field, literals(template)[1:-1])):
        raise ValueError(f"template {template!r}: parameters need a text such as ':' between them")
    return tuple(names)
