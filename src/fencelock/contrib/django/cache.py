"""``cache.lock()``, as django-redis has it, for Django's cache in Redis and for django-redis.

CACHES = {"default": {"BACKEND": "fencelock.contrib.django.cache.RedisCache", "LOCATION": ...}}

Rules of this file:

- Key and value are those of django-redis, so that both exclude each other while a fleet changes.
- Django makes a cache anew for each thread and each request of ASGI. The locks of all caches of one
  server share one client of ours.
"""

from __future__ import annotations

import threading
from typing import Any

from fencelock.compat.redis_py import Lock
from fencelock.contrib.django.bases import DjangoRedisCache

_guard = threading.Lock()
# By the server and its database, the redis-py client to which a client of ours belongs.
_clients: dict[tuple[object, ...], Any] = {}
ADDRESS = ("host", "port", "path", "db", "username")


class CacheLocks:
    """Gives a cache backend in Redis the method ``lock``; put it before the backend's class."""

    def lock(
        self,
        key: str,
        version: int | None = None,
        timeout: float | None = None,
        sleep: float = 0.1,
        *,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        client: Any = None,
        thread_local: bool = True,
    ) -> Lock:
        """Return a lock with the methods of redis-py's; nothing is sent.

        ``timeout`` is the length of its lease; without it the lease is renewed while its holder
        lives. Waiters wait in line, so ``sleep`` is not needed. ``client`` is a client of redis-py,
        by default that of the cache.

        Raises:
            TypeError, ValueError: an argument that cannot work.
        """
        cache: Any = self
        full_key = cache.make_key(key, version=version)
        return Lock(
            client or _client_of(cache, full_key),
            full_key,
            timeout=timeout,
            sleep=sleep,
            blocking=blocking,
            blocking_timeout=blocking_timeout,
            thread_local=thread_local,
        )


def _client_of(cache: Any, key: str) -> Any:
    """Return the redis-py client that the locks of this cache's server share."""
    of_django_redis = getattr(cache, "client", None)
    maker = cache._cache if of_django_redis is None else of_django_redis  # noqa: SLF001 - Django has no other name for it
    by_key = getattr(
        maker, "get_server", None
    )  # of several servers, django-redis has one for each key
    client = maker.get_client(write=True) if by_key is None else by_key(key)
    pool = client.connection_pool
    where = tuple(pool.connection_kwargs.get(each) for each in ADDRESS)
    with _guard:
        return _clients.setdefault((where, getattr(pool, "service_name", None)), client)


class RedisCache(CacheLocks, DjangoRedisCache):
    """Django's own cache in Redis, with ``lock``."""
