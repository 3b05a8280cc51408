"""The columns of the table: one per library and face."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from wire import Address

THREADS = "threads"
TASKS = "asyncio"


class Column(NamedTuple):
    """A library as the faults have to know it: its key, its commands, its errors, its use here."""

    library: str
    face: str
    place: str
    acquire: str  # the operation that takes the lock, by the names of tests/faults/proxy.py
    release: str  # empty: it sends none
    key: str
    disowns: tuple[str, ...]  # errors that say: this lock is not yours
    use: str
    wakes: tuple[str, str] | None = None  # the operation that wakes a waiter, and how it is lost
    timed: bool = True  # acquire takes a timeout; False: a number of tries
    channel: bool = False  # the key is that of a channel: who subscribes to it holds the lock

    @property
    def name(self) -> str:
        return f"{self.library} ({self.face})"


SET = ("set", "evalsha")
REDIS_PY = "`Redis.lock`; `extend(replace_ttl=True)` every third of the ttl where renewal is on"
POTTERY = (
    "`{}` on one master, `raise_on_redis_errors` left False; "
    "`extend()` every third of the ttl where renewal is on"
)
REDLOCK = (
    "`{}` on one master, as many tries as fill the timeout; it reports on a lease by `Lock.valid` "
    "(`Lock.validity` is how long it was valid when it was acquired)"
)
OURS = ("acquire", "release", "fencelock:{}", ("NotHeld", "LeaseLost"))

COLUMNS = (
    Column(
        *("fencelock", THREADS, "fencelock_:Threads", *OURS),
        use="`Client.lock`; renews automatically unless the row says no renewal",
        wakes=("granted", "drop_push"),
    ),
    Column(
        *("redis-py", THREADS, "redis_py:Threads", *SET, "{}"),
        disowns=("LockNotOwnedError", "LockError"),
        use=REDIS_PY,
    ),
    Column(
        *("python-redis-lock", THREADS, "python_redis_lock:Threads", *SET, "lock:{}"),
        disowns=("NotAcquired",),
        use="`redis_lock.Lock`; `auto_renewal=True` where renewal is on; a client without socket "
        "timeout: the default of this redis-py, 5 s, would cut its waiting short; its waiters wait "
        "for a signal, and without one until their timeout, 8 s here",
        wakes=("blpop", "drop_reply"),
    ),
    Column(
        *("pottery", THREADS, "pottery_:Threads", *SET, "redlock:{}"),
        disowns=("ReleaseUnlockedLock",),
        use=POTTERY.format("Redlock"),
    ),
    Column(
        *("redlock-ng", THREADS, "redlock_ng:Threads", "set", "eval", "{}", ()),
        timed=False,
        use=REDLOCK.format("Redlock") + "; `extend()` every third of the ttl where renewal is on",
    ),
    Column(
        *("portalocker", THREADS, "portalocker_:Threads", "subscribe", "", "{}", ()),
        use="`RedisLock` with `on_lost=`; a lock lasts as long as its connection, without a ttl; "
        "`fail_when_locked=True` for a single try",
        channel=True,
    ),
    Column(
        *("fencelock", TASKS, "fencelock_:Tasks", *OURS),
        use="`AsyncClient.lock`; renews automatically unless the row says no renewal",
        wakes=("granted", "drop_push"),
    ),
    Column(
        *("redis-py", TASKS, "redis_py:Tasks", *SET, "{}"),
        disowns=("LockNotOwnedError", "LockError"),
        use=REDIS_PY.replace("Redis", "redis.asyncio.Redis"),
    ),
    Column(
        *("pottery", TASKS, "pottery_:Tasks", *SET, "redlock:{}"),
        disowns=("ReleaseUnlockedLock",),
        use=POTTERY.format("AIORedlock"),
    ),
    Column(
        *("redlock-ng", TASKS, "redlock_ng:Tasks", "set", "eval", "{}", ()),
        timed=False,
        use=REDLOCK.format("AsyncRedlock") + "; neither renewal nor extension",
    ),
    Column(
        *("aioredlock", TASKS, "aioredlock_:Tasks", "evalsha", "evalsha", "{}"),
        disowns=("LockAcquiringError",),
        timed=False,
        use="`Aioredlock` on one master, as many tries as fill the timeout; "
        "without `lock_timeout`, so that it renews automatically, where renewal is on",
    ),
    Column(
        *("coredis", TASKS, "coredis_:Tasks", *SET, "{}"),
        disowns=("LockReleaseError",),
        use="`coredis.patterns.lock.Lock`; `extend()` every third of the ttl where renewal is on",
    ),
    Column(
        *("redis-fifo-lock", TASKS, "redis_fifo_lock_:Tasks", "evalsha", "evalsha", "{{{}}}:h"),
        disowns=("LeaseLost",),
        use="`FifoLock`; renews automatically, and where the row says no renewal with the shortest "
        "`max_hold_ms`, a millisecond more than the ttl; `timeout=0` for a single try; its waiters "
        "wait for a signal, and without one look every 30 s, its default `poll_ms`",
        wakes=("blpop", "drop_reply"),
    ),
)


def column(name: str) -> Column:
    return next(each for each in COLUMNS if each.name == name)


def library(which: Column, address: Address) -> Any:
    """Import and make the library's client; ModuleNotFoundError where it is not installed."""
    module, _, attribute = which.place.partition(":")
    kind = getattr(importlib.import_module(f"verification.peers.libraries.{module}"), attribute)
    return kind(address)


def absent(which: Column) -> str:
    """Return why a column cannot run; empty when it can."""
    try:
        importlib.import_module(f"verification.peers.libraries.{which.place.split(':')[0]}")
    except Exception as error:  # noqa: BLE001 - a peer may fail to import in any way
        return f"{type(error).__name__}: {error}"
    return ""
