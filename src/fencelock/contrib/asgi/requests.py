"""Locks that are named by the path or query of a request, and the answer when one is held.

Rules of this file:

- A request that does not get the lock is answered with 409 or 423, a ``Retry-After`` and for how
  long the lock has been held. Nothing else about the holder goes out.
- The lock is held until the handler has ended; in FastAPI, until the response was sent. Code that
  still runs always has it, unless the lease was lost.
- A template is checked when it is given, before any request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import ceil
from string import Formatter
from typing import Any

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
except ImportError as _error:
    raise ImportError(
        "locked and hold of fencelock.contrib.asgi need Starlette: install the extra 'asgi'"
    ) from _error

from fencelock import AsyncClient, options
from fencelock._handles.decorator import ends_a_field, literals, name_of
from fencelock.aio.lease import AsyncLease
from fencelock.errors import FencelockError, NotAcquired
from fencelock.options import Seconds

CONFLICT, LOCKED, BAD_REQUEST = 409, 423, 400
RETRY_AFTER_SECONDS = 1.0
ONE_TRY = -1.0


class RequestLock:
    """A dependency that holds a lock while a request is handled; ``locked`` makes it.

    ``responses`` has its answers in the form that FastAPI's ``responses=`` takes for OpenAPI.
    """

    def __init__(
        self,
        client: AsyncClient,
        template: str,
        given: dict[str, Any],
        *,
        timeout: Seconds,
        status: int,
        retry_after: Seconds,
    ) -> None:
        if not isinstance(client, AsyncClient):
            raise TypeError(f"client must be an AsyncClient, not {client!r}")
        if status not in {CONFLICT, LOCKED}:
            raise ValueError(f"status must be 409 or 423, not {status!r}")
        self._client, self._template, self._status = client, template, status
        self._names = parameters(template)
        limit = options.acquire_timeout(timeout, blocking=True)
        self._pause = ceil(options.positive("retry_after", retry_after))
        client.lock(template, **given)  # refuses wrong options now
        self._given = {"template": template, **given, "timeout": limit}
        self.responses: dict[int | str, dict[str, Any]] = _responses(status, self._pause)

    async def __call__(self, request: HTTPConnection) -> AsyncIterator[AsyncLease]:
        """Hold the lock of a request; FastAPI calls it."""
        found = {**request.query_params, **request.path_params}
        missing = [name for name in self._names if name not in found]
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
            lease = await lock.__aenter__()
        except NotAcquired:
            raise await self._busy(name) from None
        try:
            yield lease
        except BaseException as error:
            await lock.__aexit__(type(error), error, error.__traceback__)
            raise
        await lock.__aexit__(None, None, None)

    async def _busy(self, name: str) -> HTTPException:
        """Return the answer to a request that does not get the lock: how long it has been held."""
        detail: dict[str, Any] = {"error": "busy", "retry_after": self._pause}
        with suppress(FencelockError):  # then that is not known
            found = await self._client.status(name, waiters=0)
            if found.holder is not None:
                detail["held_for"] = round(found.holder.held_for, 1)
        return HTTPException(self._status, detail, {"Retry-After": str(self._pause)})


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
    client: AsyncClient,
    template: str,
    *,
    timeout: Seconds = 0,
    status: int = CONFLICT,
    retry_after: Seconds = RETRY_AFTER_SECONDS,
    **given: Any,
) -> RequestLock:
    """Return a dependency of FastAPI that holds a lock while its request is handled.

    ``template`` is the lock's name, such as ``"order:{order_id}"``, with the names of path or query
    parameters; the path goes first. The dependency's value is the lease. It waits for at most
    ``timeout`` seconds, not at all by default. When the lock is held it answers with ``status``,
    409 or 423, with the header ``Retry-After`` of ``retry_after`` seconds, 1 by default, and with
    the seconds that the lock has been held. A missing query parameter is answered with 400. The
    other options are those of ``AsyncClient.lock``. Its ``responses`` are for the route's, so that
    OpenAPI shows these answers.

    Raises:
        TypeError: ``client`` is no ``AsyncClient``, or an option of another type.
        ValueError: a template or an option that cannot work.
    """
    return RequestLock(
        client, template, given, timeout=timeout, status=status, retry_after=retry_after
    )


def hold(
    request: HTTPConnection,
    client: AsyncClient,
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
    if not names:
        raise ValueError(f"template {template!r} names no parameter, such as 'order:{{order_id}}'")
    if not all(map(ends_a_field, literals(template)[1:-1])):
        raise ValueError(f"template {template!r}: parameters need a text such as ':' between them")
    return tuple(names)
