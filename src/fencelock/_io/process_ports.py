"""The ports of this process: what all have, how they close, and what is done at a fork or the end.

At the end of the process idle leases are released, others logged, and the history is sent, with
what interrupted calls left to the background; that takes a moment at most. After a fork the child
holds nothing: leases, connections and threads are the parent's.

Rules of this file:

- Before a closing client gives its leases back, its waiters have left their lines: none of them may
  be granted what it is about to leave.
- The child never speaks on a connection of the parent, and never shuts one down. It closes its
  copies (descriptors.py): they would hide the parent's death from the server.
- The child's view of every lease of the parent is: lost (``lease.py`` sees to that).
- The child has a channel of its own, and draws its own ids, else it would repeat the parent's.
- A child that Python is not told of is noticed by what is done first in it; see process.py (I14).
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from math import inf
from weakref import WeakValueDictionary, ref

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.engine import Engine
from fencelock._core.keys import channel_prefix
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import Renewer, log_loss
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.waiting import Lines
from fencelock._core.retry import log_undelivered
from fencelock._core.round_trips import FIRST_TRIPS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Keys, Reply
from fencelock._io.wire import pack
from fencelock._runtime import clock, process
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.log import listed, log
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.server_info import facts
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final, TypeVar
from fencelock.errors import FencelockError
from fencelock.scripts import Script, packed

if TYPE_CHECKING:
    from fencelock._core.look.history import Recorder
    from fencelock.options import Acknowledgement

# How long closing waits for waiters to leave their lines and for clean-ups.
CLOSE_SECONDS = 1.0
# Between two warnings of requests that were not delivered: a history is sent each second.
QUIET_SECONDS: Final = 60.0
_BITS = 1 << 32

# The waits of the process, whose threads and tasks may each use several clients. By its number: in
# a copy no thread waits yet.
_waits: dict[int, UnitWaits] = {}


class ClientOptions(NamedTuple):
    """What a client asks of its port, besides the source."""

    prefix: str
    server_timeout: float
    node_timeout: float
    replicas: Acknowledgement | None = None
    log_waits_after: float = inf


class ProcessPort(Engine):
    """The common part of the ports for threads and for tasks."""

    needed = 1
    halves = True  # it may connect the two of the usual operations itself
    nodes: Sequence[Any] = ()  # of a quorum only
    is_node = False  # of a quorum, whose port closes it
    recorder: Recorder | None = None  # of the client's history
    now: staticmethod[[], float] = staticmethod(clock.now)
    _looked_at_memory = False
    _quiet_until = 0.0  # no warning of what was not delivered, after one

    def __init__(self, source: Any, given: ClientOptions) -> None:
        self.source: Any = source
        self.label: str = source.label
        self.given: ClientOptions = given
        self.server_timeout: float = given.server_timeout
        self.elsewhere: bool = False  # its client has ports in other loops
        self.replicas: Any = None  # that must have a grant before it counts
        self._start()
        _ports[id(self)] = self

    async def warn_of_eviction(self) -> None:
        """Warn once if the server may evict locks; for the thread or task that renews.

        Not for a client that lives for a moment, and not where the server does not tell.
        """
        if self._looked_at_memory or clock.now() < self._made_at + LOOK_AFTER_SECONDS:
            return
        self._looked_at_memory = True
        for port in self.nodes or (self,):
            with suppress(Exception):  # it is only asked for people's sake
                until, key = clock.now() + LOOK_SECONDS, self.given.prefix.encode()
                _judge_memory(port.label, await port.command((b"INFO", b"memory"), key, until))

    def _start(self) -> None:
        """Begin with nothing: at first, and in a child process."""
        name = f"{channel_prefix(self.given.prefix)}@{os.urandom(8).hex()}"
        self.client_channel: bytes = name.encode()
        self._made_at: float = clock.now()
        self.lines: Lines = Lines()
        self.lines.log_waits_after = self.given.log_waits_after
        self.renewals: RenewalSchedule = RenewalSchedule(self.lines.holders)
        self.closing: bool = False  # no waiter may join a line any more
        self.direct: bool = self.halves and self.given.replicas is None
        self._jitter = int.from_bytes(os.urandom(4), "big")
        self.mutex: AbstractContextManager[bool | None] = mutexes.mutex()  # guards the tables
        with self.mutex:  # another thread may be looking through the ports
            self.waits: UnitWaits = _waits.setdefault(process.number(), UnitWaits())
            self.waits.ports[self] = None

    def _keep_pace(self, trips: RoundTrips) -> None:
        """Have ``server_timeout`` grow where round trips are long."""
        alive = ref(self)  # without a cycle

        def noted() -> None:
            port = alive()
            if port is not None:
                least = port.given.server_timeout
                port.server_timeout = trips.within(least, FIRST_TRIPS) if trips.far else least

        trips.noted = noted

    def new_id(self) -> bytes:
        """Return 128 random bits in hexadecimal: no shell takes that for an option.

        They are drawn when they are needed: what is kept, a restored snapshot would repeat.
        """
        return os.urandom(16).hex().encode()

    def jitter(self) -> float:
        """Return a number in [0, 1) that differs from client to client; not for secrets."""
        self._jitter = state = (self._jitter * 1664525 + 1013904223) % _BITS  # Numerical Recipes
        return state / _BITS

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a script on any connection, or on the waiter's."""
        return await self.run(packed(script, keys, args), keys[0], until, waiter)

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a plain command on any connection, or on the waiter's."""
        return await self.run(pack(args), key, until, waiter)

    def notify_loss(self, hold: Hold) -> None:
        """Notify the holder as it asked, and log the loss."""
        if mutexes.inside():
            mutexes.put_off(partial(self.notify_loss, hold))
            return
        if hold.terms.options.on_lost is not None:
            self.tell(hold)
        log_loss(hold)

    def tell(self, hold: Hold) -> None:
        """Have ``on_lost`` done beside; what it raises is logged."""

    def settles(self, undo_connection: Any, key: bytes, asked_at: float) -> bool:
        """Return True if the answer to a clean-up on its undo connection counts."""
        return True

    async def deliver(self, script: Script, keys: Keys, args: Args, until: float) -> None:
        """Repeat a posted request until it is answered or its time is up."""
        try:
            await self.ask(script, keys, args, until)
        except FencelockError as error:
            current = clock.now()
            loud = current >= self._quiet_until
            if loud:
                self._quiet_until = current + QUIET_SECONDS
            log_undelivered(script, error, loud=loud)

    # -- ends -----------------------------------------------------------------------------------

    async def end(self, within: float = CLOSE_SECONDS, *, release: bool = False) -> bool:
        """Close the connections; a waiter gets an error, a holder is notified of the loss.

        Waiters may leave and clean-ups finish for a moment. With ``release`` leases are given back,
        and False says that not all were, by then.
        """
        process.number()  # in a copy, the loop may be the parent's
        self.closing = True
        until = clock.now() + within
        half = until - within / 2 if release or self.nodes else until
        await self.each(lambda port, last: port.dismiss_waiters(last), half)
        last = until - within / 4 if self.nodes else until  # they need time after it
        returned = not release or await self.give_back_all(last)
        for port in self.nodes or (self,):
            await port.end_requests()
        if release:
            await self.finish_cleanups(until)
        Renewer(self).lose_all("closed")  # of a quorum first: then the end of its parts is no news
        if self.nodes:
            await self.each(lambda node, last: node.end(max(0.0, last - clock.now())), until)
        await self.hang_up(until, release=release)
        return returned

    async def each(self, flow: Callable[[Any, float], Awaitable[Any]], until: float) -> None:
        """Run a flow for this port or, of a quorum, for each node, until an instant at most."""

    async def dismiss_waiters(self, until: float) -> None:
        """Accept no more waiters, and let those that wait leave, until an instant at most.

        What a request that is under way is granted is given back, too.
        """

    async def end_requests(self) -> None:
        """End the requests that have no answer with an error; their undo is sent behind them."""

    async def finish_cleanups(self, until: float) -> None:
        """Wait for what is sent in the background, until an instant at most."""

    async def hang_up(self, until: float, *, release: bool) -> None:
        """Close the connections, and end what runs beside, until an instant at most."""

    @property
    def has_threads(self) -> bool:
        """Return True while a thread renews, or is about to."""
        return False

    def leave(self) -> None:
        """Release the leases that are kept while they are idle; send the rest of the history."""

    def finish_leaving(self, until: float) -> None:
        """Wait for what is sent in the background, until an instant at most; outside any loop."""

    def after_fork(self) -> None:
        """Drop all that belongs to the parent; runs in the child, before any other code."""


def _judge_memory(label: str, info: Reply) -> None:
    """Warn if a server may evict locks, once for each server of this process."""
    said = facts(info)
    policy, limit = said.get("maxmemory_policy", ""), said.get("maxmemory", "0")
    if policy.startswith(("allkeys", "volatile")) and limit != "0" and label not in _warned:
        _warned.add(label)
        log.warning(
            "%s evicts keys when its memory is full, and so locks (maxmemory-policy %s): set"
            " noeviction, or use a server of their own for locks",
            label,
            policy,
        )


# How old a client is when it asks for the server's policy, and how long it waits for the answer.
LOOK_AFTER_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.1
_warned: set[str] = set()

# So many clients that are dropped just after their use are a habit.
DROPPED_MANY: Final = 100
_dropped = count(1)


def note_dropped(label: str) -> None:
    """Count a client that was dropped just after its use; warn once that it is a habit."""
    if next(_dropped) == DROPPED_MANY:
        log.warning(
            "%d clients were dropped just after their use, the last one of %s: each opens a"
            " connection and starts a thread; make one client for the process",
            DROPPED_MANY,
            label,
        )


T = TypeVar("T", bound=ProcessPort)
# Not a WeakSet: looking through one fails while another thread makes a port, or drops one.
_ports: WeakValueDictionary[int, ProcessPort] = WeakValueDictionary()


def watched(kind: type[T]) -> list[T]:
    """Return the ports of a kind that were not closed, without those of a quorum's nodes."""
    ports = [each for each in everywhere() if isinstance(each, kind)]
    return [each for each in ports if not (each.closing or each.is_node)]


def everywhere() -> list[ProcessPort]:
    """Return all ports of this process, also those that were closed."""
    return [port for each in _ports.valuerefs() if (port := each()) is not None]


def held_by(*ports: ProcessPort) -> list[Hold]:
    """Return the leases that ports hold now, as far as this process can prove."""
    with mutexes.mutex():
        holds = [hold for each in ports for hold in each.renewals.tracked()]
    ours = [hold for hold in holds if hold.open and not (hold.partial or hold.forked)]
    return [hold for hold in ours if not hold.notified and clock.now() < hold.deadline]


def _leave() -> None:
    """Send what is owed, and log the leases still held, before the interpreter is torn down."""
    process.number()  # a copy that did nothing yet has nothing to release
    mutexes.catch_up()
    until = clock.now() + CLOSE_SECONDS
    ports = everywhere()
    for each in ports:
        each.leave()
    for each in ports:
        each.finish_leaving(until)
    mutexes.at_end()
    names = [hold.name for hold in held_by(*everywhere())]
    if names:
        log.warning(
            "the process ends while it holds %d lease(s), which end by their ttl: %s",
            len(names),
            listed(names),
        )


@process.in_copies
def _in_child() -> None:  # after what the mutex and the descriptors have to do there
    for each in sorted(everywhere(), key=lambda port: not port.is_node):
        each.after_fork()  # of a quorum last: it gives its nodes its name


@process.when_patched
def _refuse() -> None:
    """Close the clients whose threads are no greenlets, and could not renew any more."""
    for each in everywhere():
        if each.has_threads:
            each.closing = True
            log.warning(
                "a client of %s had leases or waiters before gevent or eventlet patched this"
                " process: it is closed; patch first, or make it afterwards",
                each.label,
            )


atexit.register(_leave)
