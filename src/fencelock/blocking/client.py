"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Self

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._ports.choose import port_for
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock
from fencelock.blocking.make_duties import MakesDuties
from fencelock.blocking.make_shares import MakesShares
from fencelock.blocking.make_signals import MakesSignals
from fencelock.handles import defaults, settings
from fencelock.hints import published
from fencelock.options import Queue, Seconds, Wait
from fencelock.process import Rooted
from fencelock.sides import Sides


@published
class Client(MakesShares, MakesSignals, MakesDuties, Rooted):
    """Make locks over one server, for threads.

    ``source`` is a URL (``redis://``, ``rediss://``, ``valkey://``, ``unix://``, and for a Cluster
    ``redis+cluster://h1:p1,h2:p2``), a blocking redis-py or valkey-py client (also of a Cluster),
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

    Use it as a context manager, or call ``close()``. A client may be used by many threads; after a
    fork the child's copy holds nothing and opens its own connections.

    Raises:
        TypeError: ``source`` is something else, or an asyncio client.
        ValueError: an option or URL that cannot work.
    """

    def __init__(
        self,
        source: options.Source = None,
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
        self._port = port_for(
            source,
            prefix=self._defaults.key_prefix,
            patience=self._defaults.patience,
            node_timeout=options.positive("node_timeout", node_timeout),
            replicas=options.acknowledgement(replicas, replicas_timeout),
        )
        self._defaults = self._defaults._replace(
            quorum=bool(self._port.nodes), server=self._port.label
        )
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
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
        strict: bool = False,
    ) -> Lock:
        """Return a handle of the exclusive lock ``name``; sends nothing.

        ``ttl`` is the length of a lease, the client's by default; an aware ``datetime`` asks for a
        fixed lease until that instant. With ``renew`` it is renewed while held, at most
        ``max_renewals`` times and for ``max_hold`` seconds (None: without bound).
        ``timeout`` bounds ``with`` (None: waits for ever). ``wait`` is ``Queue()``, in line, or
        ``Poll(...)``, the plain form. ``on_lost`` is called with the lease, from a background
        thread, once it is lost. ``strict`` makes a second acquire by the holding thread an error.

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
            cancels=False,
        )
        return Lock(self._port, self._keys(name), chosen)

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
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> RLock:
        """Return a handle of the reentrant lock ``name``; sends nothing.

        Without ``owner`` the thread owns, as with ``threading.RLock``, and acquiring again sends
        nothing. With ``owner``, an id of your choice, all handles with that id own together, in
        any thread, process or host; the count of their holds lives on the server.
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
            cancels=False,
        )
        return RLock(self._port, self._keys(name), chosen)

    def _keys(self, name: str) -> LockKeys:
        return LockKeys(self._defaults.key_prefix, options.lock_name(name))

    def close(self) -> None:
        """Close idle connections; leases that are still held end by their ttl.

        Waits up to 1 s for clean-ups that are under way. Using the client's locks afterwards
        raises ClientClosed.
        """
        self._port.shut()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        return f"<fencelock.Client of {self._port.source.label}>"
