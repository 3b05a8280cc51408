"""``Lock`` and ``AsyncLock``: redis-py's locks by name and argument, with a lease of ours inside.

    redis_client.lock("report", timeout=30, lock_class=fencelock.compat.redis_py.Lock)

Rules of this file:

- The lock's key and value are those of redis-py's ``Lock``, so both exclude each other.
- The token in ``local.token`` is the holder id of the attempt that was granted. Only it says what
  is released, so one thread never releases what another one acquired, and a token may travel to
  another process. So what such a token has left is asked of the server: an ``extend`` adds to that,
  and a lease that has ended by our clock may have been prolonged elsewhere.
- A lease only grows: what would shorten it leaves it as it is, and a negative time is refused.
- Errors are those of redis-py, each with ours as its cause, and come when redis-py's would.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Never, Self

from redis import exceptions

from fencelock import errors, options
from fencelock._core.deadlines import validity
from fencelock._core.engine import holder_of
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew import renew_now
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock._runtime.mutex import undo
from fencelock.aio.caller import by_caller, caller
from fencelock.aio.client import AsyncClient
from fencelock.blocking.client import Client

if TYPE_CHECKING:
    from fencelock.aio.lease import AsyncLease
    from fencelock.aio.lock import AsyncLock as OurAsyncLock
    from fencelock.blocking.lease import Lease
    from fencelock.blocking.lock import Lock as OurLock

__all__ = ["AsyncLock", "Lock", "aclose", "close"]

# Where the client that a redis-py client's locks share is kept: it ends with that client.
_KEPT: Final = "_fencelock_client"
_MS_MAX: Final = 2**63 - 1  # what a server takes for a number
_log = logging.getLogger("fencelock")


def close(redis: Any) -> None:
    """Close the connections of the locks of a blocking redis-py client; it stays open itself.

    Leases that are still held end by their ttl. Without this they are closed when the redis-py
    client is garbage-collected. Waits up to 1 s for clean-ups that are under way.
    """
    kept = vars(redis).pop(_KEPT, None)
    if kept is not None:
        kept.close()


async def aclose(redis: Any) -> None:
    """Close the connection of the locks of an asyncio redis-py client in the running loop.

    As ``close``. Await it before the loop ends, or a ResourceWarning says that it is still open.
    """
    kept = vars(redis).pop(_KEPT, None)
    if kept is not None:
        await kept.aclose()


@contextlib.contextmanager
def _as_redis_py(name: str) -> Iterator[None]:
    """Raise redis-py's errors in the place of ours."""
    try:
        yield
    except errors.LeaseLost as error:
        text = f"Cannot use a lock that is no longer owned: {error}"
        raise exceptions.LockNotOwnedError(text, lock_name=name) from error
    except (errors.NotHeld, errors.NotAcquired) as error:
        raise exceptions.LockError(str(error), lock_name=name) from error
    except (errors.ServerUnreachable, errors.OutcomeUnknown, errors.ClientClosed) as error:
        raise exceptions.ConnectionError(str(error)) from error
    except errors.ServerDenied as error:
        raise exceptions.NoPermissionError(str(error)) from error
    except errors.ServerReadOnly as error:
        raise exceptions.ReadOnlyError(str(error)) from error
    except errors.FencelockError as error:
        raise exceptions.ResponseError(str(error)) from error


class _RedisPyLock:
    """What both faces share: the arguments, the token, and the hold that it stands for."""

    _kind: ClassVar[Any]  # of our client

    def __init__(  # noqa: PLR0917 - as redis-py has it
        self,
        redis: Any,
        name: str | bytes | memoryview,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,  # noqa: FBT001, FBT002 - as redis-py has it
        blocking_timeout: float | None = None,
        thread_local: bool = True,  # noqa: FBT001, FBT002 - likewise
        raise_on_release_error: bool = True,  # noqa: FBT001, FBT002 - likewise
    ) -> None:
        """Take redis-py's arguments; nothing is sent.

        ``timeout`` is the length of the lease, in seconds; it is not renewed. Without it the lease
        is 30 s and renewed while its holder lives, where redis-py's lock would never expire.
        ``sleep`` is accepted and not needed: waiters wait in line.

        Raises:
            redis.exceptions.DataError: a name that cannot be one here: an empty one, one of more
                than 1,024 bytes, or one that ends as a key that fencelock derives.
        """
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local: bool = bool(thread_local)
        self.raise_on_release_error: bool = bool(raise_on_release_error)
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None
        self._generation: int = 0  # of the process in which a block began
        client = vars(redis).get(_KEPT)  # all locks of a redis-py client share it
        if client is None:  # of several threads one is first; it connects when it is first used
            client = vars(redis).setdefault(_KEPT, self._kind(redis, key_prefix=""))
        ttl = None
        with contextlib.suppress(Exception):  # acquire() raises it, as redis-py has it
            ttl = _lease(timeout) if timeout else None
        key = bytes(redis.get_encoder().encode(name))
        self._text: str = key.decode(errors="backslashreplace")
        try:
            self._handle: Any = client.lock(self._text, ttl=ttl, renew=not timeout, cohort=None)
        except ValueError as error:
            raise exceptions.DataError(str(error)) from error
        if self._text.encode() != key:
            self._handle.__shared__()[1].keys = _Keys(self._text, key)

    @property
    def _token(self) -> bytes | None:
        """Return the token of this thread; one that the user set may be text."""
        token = getattr(self.local, "token", None)
        return token.encode() if isinstance(token, str) else token

    def _waits(
        self,
        blocking: bool | None,  # noqa: FBT001 - as redis-py has it
        blocking_timeout: float | None,
        token: object,
    ) -> float | None:
        """Return how long our ``acquire`` may wait; forget leases that have ended."""
        if token is not None:
            raise TypeError(
                "acquire() makes the token itself: if a token were used twice, there could be two"
                " holders: leave token= out, and read local.token afterwards"
            )
        if self.timeout:
            _lease(self.timeout)
        _, holds = self._handle.__shared__()
        for hold in holds.all():
            if hold.lost:
                holds.remove(hold)
        waits = self.blocking if blocking is None else blocking
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not waits or (limit is not None and limit <= 0):
            return options.NO_WAIT
        return None if limit is None or limit > threading.TIMEOUT_MAX else float(limit)

    def _known(self, token: bytes | None) -> Hold | None:
        """Return the hold of a token that was acquired by this object."""
        _, holds = self._handle.__shared__()
        return next((hold for hold in holds.all() if hold.holder_id == token), None)

    def _hold(self, token: bytes, port: Any) -> Hold:
        """Return the hold that a token stands for; it may have been acquired elsewhere."""
        _, holds = self._handle.__shared__()
        hold = self._known(token)
        if hold is not None and not (hold.lost and hold.lost_error().reason == "expired"):
            return hold
        # Only the server knows if it still holds: another process may have prolonged it.
        attempt: Hold = holds.attempt(port, "")
        fence = 0 if hold is None else hold.fence
        attempt.id = attempt.holder_id = token
        if hold is not None:
            holds.remove(hold)
        ends = port.now() + (self.timeout or options.TTL)
        attempt.start_lease(port, fence, ends)
        holds.add(attempt)
        return attempt

    async def _prolong(self, port: Any, seconds: float, *, replace: bool) -> None:
        """Prolong what the token stands for; the server says what it has left."""
        token, span = self._token_to("extend"), _ms(seconds) / 1000
        if span < 0:
            self._refuse("Cannot extend a lock by a negative time: release it instead")
        _, holds = self._handle.__shared__()
        asked_at, key = port.now(), holds.keys.lock
        left = await port.read((b"PTTL", key), key) / 1000
        owned = await holder_of(port, holds.keys) == token
        if owned and left < 0:
            text = "Cannot extend a lock that another program left without an expiry"
            raise exceptions.LockNotOwnedError(text, lock_name=self._text)
        hold = self._hold(token, port)
        if owned:  # else the renewal is refused
            with port.mutex:
                hold.move_deadline(max(hold.deadline, asked_at + validity(left)))
        ttl = max(left, span if replace else left + span, options.TTL_MIN)
        await renew_now(port, hold, min(ttl, options.TTL_MAX))

    def _token_to(self, what: str) -> bytes:
        token = self._token
        if token is None:
            self._refuse(f"Cannot {what} a lock that is not owned, or is unlocked already")
        return token

    def _token_to_prolong(self, what: str) -> bytes:
        token = self._token_to(what)
        if not self.timeout:
            self._refuse(f"Cannot {what} a lock without a timeout: its lease is renewed by itself")
        return token

    def _refuse(self, text: str) -> Never:
        raise exceptions.LockError(text, lock_name=self._text)

    def _refuse_in_child(self) -> None:
        """Raise LockNotOwnedError where a child process leaves a block of its parent."""
        if self._generation != process.number():
            self.local.token = None
            text = "Cannot release a lock at the end of a block that a parent process began"
            raise exceptions.LockNotOwnedError(text, lock_name=self._text)

    def _release_failed(self, error: exceptions.LockError) -> None:
        """Raise the error of a release at the end of ``with``, or log it, as was asked for."""
        if self.raise_on_release_error:
            try:
                raise error
            finally:
                del error
        _log.warning("release of %r at the end of its block: %s", self.name, error)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """Let a lease with a timeout end by its ttl, as redis-py does."""
        handle = getattr(self, "_handle", None)
        if handle is not None and self.timeout and not _ending():
            _, holds = handle.__shared__()
            for hold in holds.all():
                holds.remove(hold)


class Lock(_RedisPyLock):
    """A lock with the names of ``redis.lock.Lock``, for threads; ``lease`` has what is ours."""

    _handle: OurLock
    _kind = Client

    @property
    def lease(self) -> Lease | None:
        """Return the lease of this thread's token, with its fence; None without one."""
        return self._known(self._token)  # type: ignore[return-value]  # the handle's face made it

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,  # noqa: FBT001 - as redis-py has it
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """Acquire the lock; True when granted, False when it was not granted in time.

        Waits in line, for ``blocking_timeout`` seconds at most (None: for ever); ``sleep`` is not
        needed.

        Raises:
            TypeError: a token of your own.
            redis.exceptions.RedisError: the server refuses, or does not answer.
        """
        del sleep
        seconds = self._waits(blocking, blocking_timeout, token)
        port, holds = self._handle.__shared__()
        attempt = holds.attempt(port, process.here.unit)
        try:
            with _as_redis_py(self._text):
                hold = port.acquire(attempt, seconds)
            if hold is not None:
                self.local.token = hold.holder_id
            return hold is not None
        except BaseException:  # also a signal's exception
            undo(port, type(attempt).undo, attempt, port)
            raise

    def release(self) -> None:
        """Release what this thread's token stands for; the next waiter in line is granted.

        Raises:
            LockError: this thread has no token.
            LockNotOwnedError: the lease had ended before; another client may hold the lock.
            redis.exceptions.RedisError: the server refuses, or does not answer.
        """
        token = self._token_to("release")
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: str | bytes) -> None:
        """Release what a token stands for, whichever process acquired it; raises as ``release``."""
        port, holds = self._handle.__shared__()
        hold = self._hold(_bytes(expected_token), port)
        with _as_redis_py(self._text):
            port.release(self._handle, holds.take_out, hold)

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:  # noqa: FBT001, FBT002 - as redis-py has it
        """Add seconds to what is left of the lease on the server, or let them replace it.

        A lease only grows: less than it has left leaves it as it is.

        Raises:
            LockError: this thread has no token, the lock no timeout, or the seconds are negative.
            LockNotOwnedError: the lease had ended before.
            redis.exceptions.RedisError: the server refuses, or does not answer.
        """
        self._token_to_prolong("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:  # noqa: FBT001 - as redis-py has it
        """Extend what this thread's token stands for; raises as ``extend``."""
        port, _ = self._handle.__shared__()
        with _as_redis_py(self._text):
            run_blocking(self._prolong(port, additional_time, replace=replace_ttl))
        return True

    def reacquire(self) -> Literal[True]:
        """Prolong the lease to its full ``timeout``, if it has less; raises as ``extend``."""
        self._token_to_prolong("reacquire")
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        """Renew what this thread's token stands for; raises as ``extend``."""
        return self.do_extend(self.timeout or options.TTL, replace_ttl=True)

    def locked(self) -> bool:
        """Return True if any client holds the lock; raises redis-py's errors of the server."""
        with _as_redis_py(self._text):
            return self._handle.locked()

    def owned(self) -> bool:
        """Return True if this thread's token holds the lock; raises as ``locked``."""
        token = self._token
        port, holds = self._handle.__shared__()
        with _as_redis_py(self._text):
            return token is not None and run_blocking(holder_of(port, holds.keys)) == token

    def __enter__(self) -> Self:
        """Acquire; LockError when it was not granted within ``blocking_timeout``."""
        if not self.acquire():
            self._refuse("Unable to acquire lock within the time specified")
        self._generation = process.number()
        return self

    def __exit__(self, *_: object) -> None:
        """Release; with ``raise_on_release_error=False`` a LockError is logged instead."""
        try:
            self._refuse_in_child()
            self.release()
        except exceptions.LockError as trouble:
            self._release_failed(trouble)


class AsyncLock(_RedisPyLock):
    """A lock with the names of ``redis.asyncio.lock.Lock``; its twin ``Lock`` is for threads."""

    _handle: OurAsyncLock
    _kind = AsyncClient

    @property
    def lease(self) -> AsyncLease | None:
        """Return the lease of this lock's token, with its fence; None without one."""
        return self._known(self._token)  # type: ignore[return-value]  # the handle's face made it

    @by_caller
    async def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,  # noqa: FBT001 - as redis-py has it
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """Acquire the lock; True when granted. As ``Lock.acquire``, with its errors."""
        del sleep
        seconds = self._waits(blocking, blocking_timeout, token)
        make, holds = self._handle.__shared__()
        port = make()
        attempt = holds.attempt(port, caller())
        try:
            with _as_redis_py(self._text):
                hold = await port.acquire(attempt, seconds)
            if hold is not None:
                self.local.token = hold.holder_id
            return hold is not None
        except BaseException:  # also a cancellation
            undo(port, type(attempt).undo, attempt, port)
            raise

    async def release(self) -> None:
        """Release what the token stands for; cancelled, it is completed in the background.

        As ``Lock.release``, with its errors.
        """
        token = self._token_to("release")
        self.local.token = None
        await self.do_release(token)

    async def do_release(self, expected_token: str | bytes) -> None:
        """Release what a token stands for, whichever process acquired it; raises as ``release``."""
        make, holds = self._handle.__shared__()
        port = make()
        hold = self._hold(_bytes(expected_token), port)
        with _as_redis_py(self._text):
            await port.release(self._handle, holds.take_out, hold)

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:  # noqa: FBT001, FBT002 - as redis-py has it
        """Add seconds to what is left of the lease, or let them replace it; see ``Lock.extend``."""
        self._token_to_prolong("extend")
        return await self.do_extend(additional_time, replace_ttl)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:  # noqa: FBT001 - as redis-py has it
        """Extend what the token stands for; raises as ``extend``."""
        port = self._handle.__shared__()[0]()
        with _as_redis_py(self._text):
            await self._prolong(port, additional_time, replace=replace_ttl)
        return True

    async def reacquire(self) -> Literal[True]:
        """Prolong the lease to its full ``timeout``, if it has less; raises as ``extend``."""
        self._token_to_prolong("reacquire")
        return await self.do_reacquire()

    async def do_reacquire(self) -> Literal[True]:
        """Renew what the token stands for; raises as ``extend``."""
        return await self.do_extend(self.timeout or options.TTL, replace_ttl=True)

    async def locked(self) -> bool:
        """Return True if any client holds the lock; raises redis-py's errors of the server."""
        with _as_redis_py(self._text):
            return await self._handle.locked()

    async def owned(self) -> bool:
        """Return True if the token holds the lock; raises as ``locked``."""
        token = self._token
        make, holds = self._handle.__shared__()
        with _as_redis_py(self._text):
            return token is not None and await holder_of(make(), holds.keys) == token

    async def __aenter__(self) -> Self:
        """Acquire; LockError when it was not granted within ``blocking_timeout``."""
        if not await self.acquire():
            self._refuse("Unable to acquire lock within the time specified")
        self._generation = process.number()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release; with ``raise_on_release_error=False`` a LockError is logged instead."""
        try:
            self._refuse_in_child()
            await self.release()
        except exceptions.LockError as trouble:
            self._release_failed(trouble)


class _Keys(LockKeys):
    """The keys of a lock whose name is no UTF-8; people read an escaped one."""

    __slots__ = ()

    def __init__(self, text: str, key: bytes) -> None:
        super().__init__("", text)
        self.lock: bytes = key


def _ms(seconds: Any) -> int:
    """Return milliseconds as redis-py has them, which a server takes for a number, or refuses."""
    ms = int(seconds * 1000)
    if abs(ms) > _MS_MAX:
        raise exceptions.ResponseError("value is not an integer or out of range")
    return ms


def _lease(timeout: Any) -> float:
    """Return the length of a lease; raises what redis-py's ``acquire`` would."""
    ms = _ms(timeout)
    if ms <= 0:
        raise exceptions.ResponseError("invalid expire time in 'set' command")
    return min(max(ms / 1000, options.TTL_MIN), options.TTL_MAX)


def _bytes(token: str | bytes) -> bytes:
    return token.encode() if isinstance(token, str) else token
