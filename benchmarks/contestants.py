"""Who takes part: one class per library and face, all with the same two callables.

A contestant is made once per process. ``pair(name)`` gives one worker its ``acquire`` and
``release``: acquire blocks without limit, and both raise when the lock did not do what was asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from wire import Address, Line

OURS = "fencelock"
STRICT = "fencelock strict"  # ours with cohort=None: every waiter stands in line by itself
SEMAPHORE = "semaphore"  # ours, as the next
READER = "reader"
LINGER = "linger"
HOOKED = "hooked"
REDISSON = "Redisson's lock by fencelock"
BYTES = "our bytes"  # through the floor's own loop
ALL_OURS = frozenset({OURS, STRICT, SEMAPHORE, READER, LINGER, HOOKED, BYTES, REDISSON})
FLOOR = "floor"
TOKENS = "token list"
SHARED_FLOOR = "shared floor"
FIVE_SOCKETS = "five sockets"

TTL_SECONDS = 30
FOR_EVER_SECONDS = 10**9  # for peers whose acquire has a limit

THREADS = "threads"
TASKS = "asyncio"


class Pair(NamedTuple):
    """What one worker calls; in asyncio both give awaitables."""

    acquire: Callable[[], Any]
    release: Callable[[], Any]


class Contestant:
    """What a class of a peer derives from."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def open(self) -> None:
        """Connect what has to be connected in a running loop (asyncio only)."""

    def plant(self, name: str) -> None:
        """Put on the server what has to be there before the first acquisition of that lock."""

    def pair(self, name: str) -> Pair:
        raise NotImplementedError


class Entry(NamedTuple):
    """Where the class of a contestant is, by face; a text instead says why there is none."""

    threads: str
    tasks: str


NO_ASYNCIO = "has no asyncio face"
NO_THREADS = "asyncio only"
PLACES = {
    OURS: Entry("ours:Threads", "ours:Tasks"),
    STRICT: Entry("ours:StrictThreads", "ours:StrictTasks"),
    SEMAPHORE: Entry("ours:SemaphoreThreads", "ours:SemaphoreTasks"),
    READER: Entry("ours:ReaderThreads", "ours:ReaderTasks"),
    LINGER: Entry("ours:LingerThreads", "ours:LingerTasks"),
    HOOKED: Entry("ours:HookedThreads", "ours:HookedTasks"),
    BYTES: Entry("ours:Bytes", "for threads"),
    REDISSON: Entry("ours:RedissonThreads", "for threads"),
    FLOOR: Entry("floors:Threads", "floors_asyncio:Tasks"),
    TOKENS: Entry("floors:TokenThreads", "floors_asyncio:TokenTasks"),
    SHARED_FLOOR: Entry("for asyncio", "floors_asyncio:SharedTasks"),
    FIVE_SOCKETS: Entry("floors_quorum:Threads", "floors_quorum:Tasks"),
    "redis-py": Entry("peers.redis_py:Threads", "peers.redis_py:Tasks"),
    "python-redis-lock": Entry("peers.python_redis_lock:Threads", NO_ASYNCIO),
    "pottery": Entry("peers.pottery_:Threads", "peers.pottery_:Tasks"),
    "redlock-ng": Entry("peers.redlock_ng:Threads", "peers.redlock_ng:Tasks"),
    "aioredlock": Entry(NO_THREADS, "peers.aioredlock_:Tasks"),
    "coredis": Entry(NO_THREADS, "peers.coredis_:Tasks"),
    "walrus": Entry("peers.walrus_:Threads", NO_ASYNCIO),
    "sherlock": Entry("peers.sherlock_:Threads", NO_ASYNCIO),
    "tooz": Entry("peers.tooz_:Threads", NO_ASYNCIO),
    "redis-fifo-lock": Entry(NO_THREADS, "peers.redis_fifo_lock_:Tasks"),
    "portalocker": Entry("peers.portalocker_:Threads", NO_ASYNCIO),
}
FLOORS = {FLOOR, TOKENS, SHARED_FLOOR, FIVE_SOCKETS}
PEERS = [name for name in PLACES if name not in ALL_OURS | FLOORS]


class CannotRun(Exception):
    """Why a contestant does not take part."""


def place(name: str, face: str) -> str:
    found = PLACES[name].threads if face == THREADS else PLACES[name].tasks
    if ":" not in found:
        raise CannotRun(found)
    return found


def make(name: str, face: str, address: Address) -> Contestant:
    """Import and make a contestant; CannotRun says why not."""
    module, _, attribute = place(name, face).partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
        contestant: Contestant = kind(address)
    except ModuleNotFoundError as error:
        raise CannotRun(f"not installed (no module {error.name})") from error
    except Exception as error:
        raise CannotRun(f"{type(error).__name__}: {error}") from error
    return contestant


def plant(name: str, address: Address, lock: str) -> None:
    """Clear a lock and prepare it, whoever is about to use it and under whatever prefix.

    A peer whose task was cancelled may have left a key that nobody owns.
    """
    for node in address.nodes:
        with Line(node) as line:
            for key in line.command("KEYS", f"*{lock}*"):
                line.command("DEL", key)
            if name == TOKENS:
                line.command("LPUSH", lock, "1")
