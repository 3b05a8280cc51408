"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, Self

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._ports.aio import AioPort
from fencelock._ports.choose_aio import port_maker
from fencelock._ports.loop_ports import LoopPorts
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock
from fencelock.aio.make_duties import MakesDuties
from fencelock.aio.make_shares import MakesShares
from fencelock.aio.make_signals import MakesSignals
from fencelock.handles import defaults, settings
from fencelock.hints import published
from fencelock.options import Queue, Seconds, Wait
from fencelock.process import Rooted
from fencelock.sides import Sides


@published
class AsyncClient(MakesShares, MakesSignals, MakesDuties, Rooted):
    """Make locks over one server, for asyncio.

    ``source`` is a URL (``redis://``, ``rediss://``, ``valkey://``, ``unix://``, and for a Cluster
    ``redis+cluster://h1:p1,h2:p2``), an asyncio redis-py or valkey-py client (also of a Cluster),
    or None: then ``FENCELOCK_URL``, and without it an embedded server that all processes of this
    user on this machine share. Private connections are opened with the source's settings, the
    first one when the first lock is asked for.

    ``redis+sentinel://s1,s2:26379,s3/service/0``, or such a client of Sentinels, is the master
    that they name. After a failover the new one is found, an answer of the old one does not
    count, and calls ask again until their time is up: ``server_timeout`` should outlast it.

    A list of three or more sources is a quorum of independent servers: a lock is held while a
    majority of them grants it. ``node_timeout`` is how long one that is silent may hold up the
    others, 50 ms.

    ``key_prefix`` stands before every key (it may be empty). ``ttl`` is the default length of a
    lease, 30 s: renewed every third of it, it survives two failed renewals, and a crashed holder
    blocks others for no longer. ``label`` is shown to people beside host and process.
    ``server_timeout`` is how long a silent server is asked again before a call gives up, 5 s.
    With ``replicas=n`` a grant or renewal counts only once n replicas have acknowledged it, within
    ``replicas_timeout``, 1 s: long enough for a pause of a replica's disk. Otherwise acquiring
    gives the lock back and raises NotAcknowledged.

    Use it with ``async with``, or call ``aclose()``. A client may be used by many tasks, and in
    several event loops: each loop gets a connection of its own. After a fork the child's copy
    holds nothing and opens its own connections in a loop of the child.

    Raises:
        TypeError: ``source`` is something else, or a blocking client.
        ValueError: an option or URL that cannot work.
    """

    def __init__(
        self,
        source: options.AsyncSource = None,
        *,
        key_prefix: str = options.KEY_PREFIX,
        ttl: Seconds = options.TTL,
        label: str | None = None,
        server_timeout: Seconds = options.PATIENCE,
        replicas: int | None = None,
        replicas_timeout: Seconds = options.REPLICAS_TIMEOUT,
        node_timeout: Seconds = options.NODE_TIMEOUT,
    ) -> None:
        self._defaults = defaults(
            key_prefix=key_prefix, ttl=ttl, label=label, server_timeout=server_timeout
        )
        self._source = port_maker(
            source,
            prefix=self._defaults.key_prefix,
            patience=self._defaults.patience,
            node_timeout=options.positive("node_timeout", node_timeout),
            replicas=options.acknowledgement(replicas, replicas_timeout),
        )
        self._defaults = self._defaults._replace(
            quorum=self._source.quorum, server=self._source.label
        )
        self._ports = LoopPorts(self._source)
        self._within = set()  # calls of decorated functions that are under way
        self._sides = Sides()

    def lock(
        self,
        name: str,
        *,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = Queue(),  # noqa: B008 - immutable
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        strict: bool = False,
    ) -> AsyncLock:
        """Return a handle of the exclusive lock ``name``; sends nothing.

        ``ttl`` is the length of a lease, the client's by default; an aware ``datetime`` asks for a
        fixed lease until that instant. With ``renew`` it is renewed while held, at most
        ``max_renewals`` times and for ``max_hold`` seconds (None: without bound).
        ``timeout`` bounds ``with`` (None: waits for ever). ``wait`` is ``Queue()``, in line, or
        ``Poll(...)``, the plain form. ``on_lost`` is called with the lease once it is lost
        (a coroutine function is awaited in a task of its own); ``"cancel"`` cancels the body of
        ``async with``, which then raises LeaseLost. ``strict`` makes a second acquire by the
        holding task an error.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=wait,
            on_lost=on_lost,
            label=label,
            strict=strict,
            cancels=True,
        )
        return AsyncLock(self._port, self._keys(name), chosen)

    def rlock(
        self,
        name: str,
        *,
        owner: str | None = None,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = Queue(),  # noqa: B008 - immutable
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
    ) -> AsyncRLock:
        """Return a handle of the reentrant lock ``name``; sends nothing.

        Without ``owner`` the task owns, and acquiring again sends nothing. With ``owner``, an id
        of your choice, all handles with that id own together, in any task, process or host;
        the count of their holds lives on the server.
        The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=wait,
            on_lost=on_lost,
            label=label,
            owner=owner,
            cancels=True,
        )
        return AsyncRLock(self._port, self._keys(name), chosen)

    def _keys(self, name: str) -> LockKeys:
        return LockKeys(self._defaults.key_prefix, options.lock_name(name))

    def _port(self) -> AioPort:
        """Return the running loop's port, made when the loop first asks."""
        return self._ports.of(asyncio.get_running_loop())

    async def aclose(self) -> None:
        """Close this loop's connection; leases that are still held end by their ttl.

        Waits up to 1 s for clean-ups that are under way. Using the client's locks in this loop
        afterwards raises ClientClosed. Other loops' connections stay.
        """
        await self._port().shut()  # one that was never used is closed, too

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.aclose()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        return f"<fencelock.AsyncClient of {self._source.label}>"
