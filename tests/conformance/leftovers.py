"""What a client still keeps: the one place where tests look into its tables.

``leftovers`` walks through all that a client reaches and names each table that is not empty, so a
table that is added later is looked at, too. What is spared has its reason here.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from fencelock._core.lock.hold import Hold

TABLES = (
    *(dict, list, set, deque),
    *(WeakSet, WeakKeyDictionary, WeakValueDictionary),
)
# Parts of the client that lie in a table: they are looked into.
PARTS = frozenset({"_opened", "nodes", "at", "_ports", "_closers", "_rounds", "_monitors"})
# What a client remembers of what is over, up to so many of each.
MEMORIES = {
    "given_up": 1000,
    "revoked": 1000,
    "told": 1000,
    "_early": 1000,
    "vain": 1000,
    "_passed": 1000,
    "_answered": 100,
    "_order": 64,  # numbers of buckets that are empty by now
}
# What it knows of servers, not of locks: as much as there are servers, slots or channels.
KNOWLEDGE = frozenset(
    {
        *("source", "_source", "flows", "_defaults", "_asked", "_options"),
        *("labels", "outcomes", "channels", "heard", "claimants", "suspect", "slots"),
        *("_seen", "_told", "_known", "_followers", "_doubted", "_at", "_silent", "_run_ids"),
        *("_seen_at", "_witnesses"),
        *("_buffer", "_view", "_reader", "_unsent"),
        # Of hooks: what they know of classes of locks.
        *("_templates", "_rows", "_classes", "_twice", "_reports", "_graph"),
    }
)
# Of the whole process, or of the loop: other clients are in it.
SHARED = frozenset({"waits", "loop", "_loop", "_lock"})
# What keeps nothing: most of what there is to look at.
PLAIN = frozenset({bool, bytes, float, int, str, type(None), FunctionType})
# An open client may have these.
RESOURCES = frozenset({"free", "_retired"})


def leftovers(client: Any, *, resources: bool) -> list[str]:
    """Return what a client that neither holds nor waits still keeps, one text for each table.

    With ``resources`` also its threads, tasks, timers and sockets: it was closed.
    """
    found = _Walk(resources=resources)
    found.into(getattr(client, "inner", client))
    return sorted(found.texts)


def leftovers_of_hook(hook: Any) -> list[str]:
    """Return what a hook still keeps of acquisitions, which all have ended."""
    found = _Walk(resources=False)
    found.into(hook)
    return sorted(found.texts)


def kept_while_open(client: Any, *, waits: bool) -> list[str]:
    """Return what an open client still keeps: leases that ended, and if it has no more, all else.

    ``waits``: it waits for something.
    """
    found = _Walk(resources=False)
    found.into(getattr(client, "inner", client))
    if waits or found.held > 0:
        return sorted(found.ended)
    return [*sorted(found.ended + found.texts), *waits_here(client)]


def activities(client: Any) -> list[str]:
    """Return the threads and tasks that a client has: none while it is idle (I10)."""
    found = _Walk(resources=False)
    found.into(getattr(client, "inner", client))
    return sorted(found.active)


def holds_some(client: Any) -> bool:
    """Return True while a client holds a lease, or had its handle dropped while it held one."""
    found = _Walk(resources=False)
    found.into(getattr(client, "inner", client))
    return found.held > 0


class _Walk:
    """One walk through a client."""

    def __init__(self, *, resources: bool) -> None:
        self._resources = resources
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # no other object gets the identity of one that was seen
        self.texts: list[str] = []
        self.ended: list[str] = []
        self.active: list[str] = []  # not timers: an idle client may have one, for all its leases
        self.held = 0

    def into(self, thing: Any) -> None:
        """Look at all attributes of an object of ours."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        self._kept.append(thing)
        if isinstance(thing, Hold) and thing.held:
            self._hold(thing)
            return
        for name, value in _attributes(thing):
            if type(value) not in PLAIN and name not in KNOWLEDGE and name not in SHARED:
                self._value(f"{type(thing).__name__}.{name}", name, value)

    def _hold(self, hold: Hold) -> None:
        if hold.released or hold.loss is not None:
            self.ended.append(repr(hold))
        else:
            self.held += 1

    def _value(self, path: str, name: str, value: Any) -> None:
        if isinstance(value, TABLES):
            self._table(path, name, value)
        elif (what := _activity(value)) is not None:
            if not isinstance(value, asyncio.TimerHandle):
                self.active.append(f"{path}: {what}")
            if self._resources:
                self.texts.append(f"{path}: {what}")
        elif isinstance(value, socket.socket):
            if self._resources and value.fileno() >= 0:
                self.texts.append(f"{path}: an open socket")
        elif isinstance(value, MethodType):
            self._value(path, name, value.__self__)
        elif type(value).__module__.startswith("fencelock"):
            self.into(value)

    def _table(self, path: str, name: str, table: Any) -> None:
        inside = [*_elements(table)]
        if name not in PARTS and not (name in RESOURCES and not self._resources):
            size = _size(table)
            if size > MEMORIES.get(name, 0):
                self.texts.append(f"{path}: {size} left: {[*table][:3]!r}"[:300])
        if name not in MEMORIES:
            for number, each in enumerate(inside):
                if type(each) not in PLAIN:
                    self._value(f"{path}[{number}]", "", each)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object has, not what its class has."""
    yield from list(getattr(thing, "__dict__", {}).items())  # a thread of the client may add some
    for name in _slots(type(thing)):
        if hasattr(thing, name):
            yield name, getattr(thing, name)


@functools.cache
def _slots(kind: type) -> list[str]:
    """Return the names of the attributes of a class that have no dictionary."""
    listed = [each.__dict__.get("__slots__", ()) for each in kind.__mro__]
    names = [name for each in listed for name in ((each,) if isinstance(each, str) else each)]
    return [name for name in names if not name.startswith("__")]


def _elements(table: Any) -> Iterator[Any]:
    for each in list(table):
        yield each
        if isinstance(table, Mapping):
            value = table.get(each)
            if value is not None:
                yield value


def _size(table: Any) -> int:
    """Return how many entries a table has; of a table of tables, how many these have."""
    if isinstance(table, Mapping):
        values = list(table.values())
        if values and all(isinstance(each, TABLES) for each in values):
            return sum(len(each) for each in values)
    return len([*table])  # a weak one counts what is gone, if an interrupt came as it went


def _activity(value: Any) -> str | None:
    if isinstance(value, threading.Thread):
        return f"thread {value.name}" if value.is_alive() else None
    if isinstance(value, asyncio.Task):
        return None if value.done() else f"task {value.get_name()}"
    if isinstance(value, asyncio.TimerHandle):
        over = value.cancelled() or value.when() < value._loop.time()
        return None if over else f"a timer, due in {value.when() - value._loop.time():.1f} s"
    return None


def waits_here(client: Any) -> list[str]:
    """Return the client's waits that the process has in its table for deadlocks."""
    waits = {id(each): each for port in ports_of(client) for each in port.waits._of.values()}
    mine = [each for each in waits.values() if each.port in ports_of(client)]
    return [f"waits: {each.attempt.keys.name!r}" for each in mine]


def is_closed(client: Any) -> bool:
    """Return True once a client was closed in each loop that used it."""
    return all(port.closing for port in ports_of(client))


def ports_of(client: Any) -> list[Any]:
    port = getattr(client, "inner", client)._port
    by_loop = getattr(port, "__self__", None)
    return [port] if by_loop is None else list(by_loop._ports.values())
