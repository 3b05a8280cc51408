"""The server of a simulation: one keyspace, the shipping scripts, and who listens to what.

A request's outcome depends only on the scripts, the keyspace, the clock, the listeners and the
request itself. So outcomes are remembered, for all worlds of the process: a schedule that begins
like an earlier one costs no Lua.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from fencelock import scripts
from fencelock._core.keys import slot
from fencelock._io.wire import reader
from verification.simulator.commands import Keyspace
from verification.simulator.keyspace import NEVER, CommandError, Frozen, Value
from verification.simulator.scripting import Program

EPOCH_US = 1_700_000_000_000_000
EMPTY: Frozen = frozenset()
# A request of replicas, not of the keyspace: they have all that was done so far, and say so.
ACKNOWLEDGE = "acknowledge"
# When a world begins, its servers have been up for so long.
UPTIME_US = 10_000_000_000
# Outcomes that are remembered; then the memory starts afresh.
MEMORY_MAX = 100_000
# What was learnt, for servers with the same scripts.
_memories: dict[Any, dict[Any, Outcome]] = {}


class Refusal(NamedTuple):
    """An error reply."""

    message: str


class Outcome(NamedTuple):
    """What one request did: its reply, the messages it published, and the keyspace after it."""

    reply: Any
    messages: tuple[tuple[bytes, bytes], ...]
    state: Frozen


class Request:
    """One request on its way: a script's or command's name, keys and arguments, and who asked."""

    __slots__ = ("args", "asker", "keys", "name", "posted")

    def __init__(
        self,
        name: str,
        keys: tuple[bytes, ...],
        args: tuple[bytes | int, ...],
        asker: Any = None,
        posted: Any = None,
    ) -> None:
        self.name: str = name
        self.keys: tuple[bytes, ...] = keys
        self.args: tuple[bytes | int, ...] = args
        self.asker: Any = asker  # the task that waits for the reply, if one still does
        self.posted: Any = posted  # how to send it again, for a clean-up in the background

    def __repr__(self) -> str:
        words = (arg.decode() if isinstance(arg, bytes) else str(arg) for arg in self.args)
        return f"{self.name}({' '.join(words)})"


def unpacked(packed: bytes) -> Request:
    """Return the request that a packed script call, or a plain command, makes."""
    return Request(*_parsed(packed))


@functools.lru_cache(maxsize=20_000)
def _parsed(packed: bytes) -> tuple[str, tuple[bytes, ...], tuple[bytes, ...]]:
    """Return what a packed call runs, and its keys and arguments."""
    parser = reader()
    parser.feed(packed)
    args = parser.gets()
    if args[0] != b"EVALSHA":
        return args[0].decode(), (), tuple(args)
    _, digest, keys, *words = args
    name = next(each.name for each in scripts.ALL if each.digest == digest)
    return name, tuple(words[: int(keys)]), tuple(words[int(keys) :])


class Server:
    """Runs requests.

    ``sources`` replaces scripts by name, to seed a fault, or adds others. ``cluster``: as in a
    Cluster, the keys of a script must share a slot. A replica has what it acknowledged, and with
    ``replicated`` also what it was sent meanwhile (``copy``); ``fail_over`` promotes it.
    """

    def __init__(
        self,
        sources: Mapping[str, bytes] | None = None,
        *,
        cluster: bool = False,
        replicated: bool = False,
        node: bytes = b"",  # its id, as a node of a Cluster
    ) -> None:
        texts = {each.name: each.source for each in scripts.ALL} | dict(sources or {})
        self._programs = {name: Program(text, name) for name, text in texts.items()}
        self._keyspace = Keyspace(publish=self._publish, listeners=self._listeners)
        self._published: list[tuple[bytes, bytes]] = []
        self._keyspace.node = node
        self._memory = _memories.setdefault((cluster, node, *texts.items()), {})
        self._cluster = cluster
        self._replicated = replicated
        self.reset()

    frozen = False  # it serves nothing
    gone = False  # nor ever will

    def reset(self) -> None:
        """Begin again, empty and at the first instant; what was learnt of outcomes stays."""
        self.state: Frozen = EMPTY
        self.replica: Frozen = EMPTY  # what would be promoted
        self.follows: bool = self._replicated  # a replica is sent what is written, sooner or later
        self.generation = 0  # how often another server took over
        self.started_us = -UPTIME_US  # by the world's clock; nobody reaches it before
        self.now_us = EPOCH_US
        self.skew_us = 0  # its clock was set
        self.listeners: frozenset[tuple[bytes, Any]] = frozenset()

    @property
    def channels(self) -> dict[bytes, int]:
        """Return how many listen to each channel."""
        counts: dict[bytes, int] = {}
        for channel, _ in self.listeners:
            counts[channel] = counts.get(channel, 0) + 1
        return counts

    def subscribe(self, channel: bytes, who: Any) -> None:
        """Let a connection hear a channel."""
        self.listeners |= {(channel, who)}

    def unsubscribe(self, who: Any, channel: bytes | None = None) -> None:
        """Let a connection hear a channel no more, or nothing."""
        left = {each for each in self.listeners if each[1] == who and channel in {None, each[0]}}
        self.listeners -= left

    def listens(self, who: Any) -> bool:
        """Return True if a connection hears any channel."""
        return any(each[1] == who for each in self.listeners)

    def is_down(self, now_us: int) -> bool:
        """Return True if nobody reaches it."""
        return self.started_us > now_us

    def forget(self) -> None:
        """Start anew, with nothing."""
        self.state = EMPTY

    @property
    def lags(self) -> bool:
        """Return True if the replica has not got everything yet."""
        return self.follows and self.replica != self.state

    def copy(self) -> None:
        """Let the replica get everything."""
        self.replica = self.state

    def fail_over(self) -> None:
        """Promote the replica, with what it has."""
        self.state, self.follows = self.replica, False

    def living(self) -> dict[bytes, tuple[Value, int]]:
        """Return the living keys, each with its value and until when it lives (ms, or NEVER)."""
        now_ms = self.now_us // 1000
        return {key: entry for key, entry in self.state if entry[1] == NEVER or entry[1] >= now_ms}

    def key(self) -> Any:
        """Return all that decides what it will answer."""
        told = self.generation, self.started_us
        return self.state, self.skew_us, self.listeners, self.replica, told

    def run(self, request: Request) -> Outcome:
        """Run a request at the present instant and keep what it did."""
        if request.name == ACKNOWLEDGE:
            self.replica = self.state
            return Outcome(1, (), self.state)
        heard = self.listeners
        key = (request.name, request.keys, request.args, self.now_us, self.state, heard)
        outcome = self._memory.get(key)
        if outcome is None:
            if len(self._memory) >= MEMORY_MAX:
                self._memory.clear()
            outcome = self._memory[key] = self._run(request)
        self.state = outcome.state
        return outcome

    def _run(self, request: Request) -> Outcome:
        space = self._keyspace
        space.restore(self.state)
        space.now_us = self.now_us
        self._published.clear()
        try:
            reply = hashable(self._reply(request))
        except CommandError as error:
            reply = Refusal(str(error))
        return Outcome(reply, tuple(self._published), space.freeze())

    def _reply(self, request: Request) -> Any:
        program = self._programs.get(request.name)
        if program is None:
            return self._keyspace.command(*request.args)
        if self._cluster and len(set(map(slot, request.keys))) > 1:
            raise CommandError("CROSSSLOT Keys in request don't hash to the same slot")
        return program.run(self._keyspace, request.keys, request.args)

    def _listeners(self, channel: bytes) -> int:
        return self.channels.get(channel, 0)

    def _publish(self, channel: bytes, message: bytes) -> int:
        self._published.append((channel, message))
        return self.channels.get(channel, 0)


def hashable(reply: Any) -> Any:
    """Return a reply with tuples for lists: it is kept, compared and handed out many times."""
    return tuple(map(hashable, reply)) if isinstance(reply, list) else reply
