"""The fence guards of Redis and Valkey, for transactions of redis-py and valkey-py.

Rules of this file:

- The check watches the key of the fence before it reads it. If another client raises the fence
  before the user's commands run, the server runs none of them, and ``execute`` raises WatchError.
- The fence is raised by the same transaction as the user's commands, so both happen or neither.
- A fence that is stored already is not written again: transactions of one lease do not disturb
  each other.
"""

from __future__ import annotations

from typing import Any, Final

from fencelock.fences.token import Fenced, FencedMany, FencingToken, refuse_older, tokens_of

KEY_PREFIX: Final = "fencelock_fences:"


class _RedisGuard:
    """What both guards share."""

    def __init__(self, key_prefix: str = KEY_PREFIX) -> None:
        """Say where the fences are stored; nothing is sent.

        A lock's fence is stored under ``key_prefix`` and the lock's name. In a Cluster all keys of
        a transaction are in one slot: give the prefix the hash tag of the keys that you write, as
        in ``"{orders}:fences:"``.

        Raises:
            TypeError: no text.
        """
        if not isinstance(key_prefix, str):
            raise TypeError(f"key_prefix must be str, not {type(key_prefix).__name__}")
        self.key_prefix: str = key_prefix

    def _key(self, token: FencingToken) -> str:
        return f"{self.key_prefix}{token.name}"

    def _queue(self, pipeline: Any, tokens: list[FencingToken], stored: list[Any]) -> None:
        """Refuse older fences, then begin the transaction with those that grow."""
        seen = [
            _fence(value, self._key(token)) for token, value in zip(tokens, stored, strict=True)
        ]
        for token, before in zip(tokens, seen, strict=True):
            refuse_older(token, before)
        pipeline.multi()
        for token, before in zip(tokens, seen, strict=True):
            if before != token.fence:
                pipeline.set(self._key(token), token.fence)

    def __repr__(self) -> str:
        """Show the prefix."""
        return f"<fencelock.fences.{type(self).__name__} key_prefix={self.key_prefix!r}>"


class RedisFenceGuard(_RedisGuard):
    """Refuse the writes of older holders in Redis or Valkey, for threads."""

    def check(self, pipeline: Any, lease: Fenced | FencedMany) -> None:
        """Begin a transaction that runs only while no greater fence was seen.

        ``pipeline`` is ``client.pipeline(transaction=True)``, without commands so far. Queue the
        writes after the check, and ``execute``: it raises WatchError, and has run nothing, if
        another client raised the fence in between. Then begin again: the check says if it is
        stale. What the writes depend on can be watched and read before the check.

        Raises:
            Stale: a holder with a greater fence has written; nothing is queued.
            LeaseLost, NotHeld: the lease cannot be proved any more; nothing was sent.
            TypeError: no pipeline for threads, or no lease.
            ValueError: the lease has no fencing token, the pipeline has commands already, or the
                key of the fence stores something else.
            Exception: the client's own errors.
        """
        tokens = tokens_of(lease)
        _refuse_used(pipeline, asynchronous=False)
        keys = [self._key(token) for token in tokens]
        pipeline.watch(*keys)
        self._queue(pipeline, tokens, [pipeline.get(key) for key in keys])


class AsyncRedisFenceGuard(_RedisGuard):
    """Refuse the writes of older holders in Redis or Valkey, for asyncio."""

    async def check(self, pipeline: Any, lease: Fenced | FencedMany) -> None:
        """Begin a transaction that runs only while no greater fence was seen.

        As ``RedisFenceGuard.check``, with its errors, for a pipeline of ``redis.asyncio``.
        """
        tokens = tokens_of(lease)
        _refuse_used(pipeline, asynchronous=True)
        keys = [self._key(token) for token in tokens]
        await pipeline.watch(*keys)
        self._queue(pipeline, tokens, [await pipeline.get(key) for key in keys])


def _refuse_used(pipeline: Any, *, asynchronous: bool) -> None:
    """Raise for what is no fresh pipeline: a queued GET would return no value to compare."""
    fits = hasattr(pipeline, "watch") and hasattr(pipeline, "command_stack")
    if not fits or hasattr(pipeline, "__aenter__") != asynchronous:
        whose = "an asyncio client" if asynchronous else "a blocking client"
        raise TypeError(f"pipeline must be client.pipeline() of {whose}, not {pipeline!r}")
    if len(pipeline.command_stack) or getattr(pipeline, "explicit_transaction", False):
        raise ValueError("pipeline has commands already: check the fence before you queue any")


def _fence(value: Any, key: str) -> int:
    if value is None:
        return 0
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"the key {key!r} stores no fence, but {value!r}") from None
