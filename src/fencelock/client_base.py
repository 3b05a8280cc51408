"""The factories of handles and a client's options, written once for both clients.

Rules of this file:

- A factory sends nothing: it checks its options and returns a handle.
- The classes of a face are type arguments, so ``Client.lock`` returns a ``Lock`` and
  ``AsyncClient.lock`` an ``AsyncLock``. ``hints.published`` puts their names into the signatures
  that ``help()`` and ``inspect`` show.
- What few programs use is imported when its factory is first called: a command of the shell pays
  for each module when it starts.
- An option that several factories take is declared in ``options`` (``LockOptions`` and the others),
  explained in ``lock``, and checked in ``handles.settings``, which has its default.

``client_decorators`` has ``locked`` and ``once``.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from fencelock import options
from fencelock._core.keys import LockKeys, SignalKeys
from fencelock._core.lock.hold import Hold
from fencelock._handles.lock import Defaults, Settings, defaults, settings
from fencelock._handles.quorum_limits import refuse
from fencelock._runtime.process import ProcessBound
from fencelock.options import (
    Cohort,
    ElectionOptions,
    History,
    LockedOptions,
    LockOptions,
    MultiOptions,
    RWLockOptions,
    Seconds,
    SemaphoreOptions,
)

if TYPE_CHECKING:  # few programs use them
    from fencelock._core.objects.barrier import BarrierSpec
    from fencelock._core.objects.election import ElectionKeys
    from fencelock._core.objects.event_latch import EventSpec
    from fencelock._handles.lock import Holds
    from fencelock._handles.rwlock import SideHolds, SideTable

SourceT = TypeVar("SourceT")
# What ``on_lost`` may be: for one lease, and for that of a multi.
OnLost = TypeVar("OnLost")
OnAnyLost = TypeVar("OnAnyLost")

# The classes of a face.
LeaseT = TypeVar("LeaseT")
LockT = TypeVar("LockT")
RLockT = TypeVar("RLockT")
SemaphoreT = TypeVar("SemaphoreT")
BoundedT = TypeVar("BoundedT")
RWLockT = TypeVar("RWLockT")
EventT = TypeVar("EventT")
LatchT = TypeVar("LatchT")
BarrierT = TypeVar("BarrierT")
MultiLockT = TypeVar("MultiLockT")
ElectionT = TypeVar("ElectionT")
# The handles that stand for their name in a multi.
PartT = TypeVar("PartT")


class ClientBase(ProcessBound):
    """What the factories need of their client."""

    _asynchronous: bool  # a callback may be a coroutine function, and a lost lease cancel a task
    _defaults: Defaults
    # What its handles are made with: a port, or in asyncio what returns the running loop's port.
    _port: Any
    # The holds of reader/writer locks, and the calls of decorated functions, that are under way.
    _sides: SideTable
    _within: set[tuple[object, ...]]
    # What keeps the client's history, if it has one.
    _recorder: Any = None

    def _keys(self, name: str) -> LockKeys:
        return LockKeys(self._defaults.key_prefix, options.lock_name(name))

    def _without_cohort(self, kind: str, **given: Any) -> Settings:
        """Check the options of an object whose waiters each stand in line for themselves."""
        cancels = self._asynchronous
        return settings(self._defaults, cohort=None, kind=kind, cancels=cancels, **given)

    def _signal_keys(self, name: str) -> SignalKeys:
        return SignalKeys(self._defaults.key_prefix, options.lock_name(name))


class ClientOptions(ClientBase, Generic[SourceT]):
    """The options of a client."""

    def __init__(
        self,
        source: SourceT | None = None,
        *,
        key_prefix: str = options.KEY_PREFIX,
        ttl: Seconds = options.TTL,
        label: str | None = None,
        server_timeout: Seconds = options.SERVER_TIMEOUT,
        cohort: Cohort | None = Cohort(),  # noqa: B008 - immutable
        deadlock_after: Seconds | None = options.DEADLOCK_AFTER,
        replicas: int | None = None,
        replicas_timeout: Seconds = options.REPLICAS_TIMEOUT,
        node_timeout: Seconds = options.NODE_TIMEOUT,
        history: bool | History = False,
    ) -> None:
        """Check the options; connects when the first lock is asked for.

        ``source`` is a URL (``redis://``, ``rediss://``, ``valkey://``, ``unix://``, for a Cluster
        ``redis+cluster://h1:p1,h2:p2``, for Sentinels
        ``redis+sentinel://s1,s2:26379,s3/service/0``) or a client of redis-py or valkey-py. Private
        connections are opened with its settings. None is ``FENCELOCK_URL``, and without it an
        embedded server that all processes of this user on this machine share.

        With Sentinels it is the master that they name. After a failover the new one is found, an
        answer of the old one does not count, and calls ask again until their time is up:
        ``server_timeout`` should outlast it.

        A list of three or more sources is a quorum of independent servers: a lock is held while a
        majority of them grants it. ``node_timeout`` is how long a silent one may hold up the
        others, 50 ms.

        ``key_prefix`` stands before every key (it may be empty). ``ttl`` is the default length of a
        lease, 30 s: renewed every third of it, it survives two failed renewals, and a crashed
        holder blocks others for no longer. ``label`` is shown to people with host and process.
        ``server_timeout`` is how long a silent server is asked again before a call gives up, 5 s.
        ``cohort`` is how long its waiters for one lock may take turns before it goes to others;
        None: not at all.
        ``deadlock_after`` is how long a wait lasts before it looks for a deadlock that it is part
        of, 1 s: nearly all waits are over by then. None: never, and its locks are part of none.
        With ``replicas=n`` a grant or renewal counts only once n replicas have acknowledged it,
        within ``replicas_timeout``, 1 s: long enough for a pause of a replica's disk. Otherwise
        acquiring gives the lock back and raises NotAcknowledged.
        With ``history=True`` this client's waits of 100 ms or more, losses, revocations and
        deadlocks are kept on the server, for the method ``history`` and for ``fencelock history``;
        ``History(...)`` says how many and for how long.

        Raises:
            TypeError: ``source`` is something else, or a client of the other kind: ``Client`` takes
                blocking ones, ``AsyncClient`` those of asyncio.
            ValueError: an option or URL that cannot work.
        """
        given = defaults(
            key_prefix=key_prefix,
            ttl=ttl,
            label=label,
            server_timeout=server_timeout,
            cohort=cohort,
            deadlock_after=deadlock_after,
        )
        kept = options.history(history)
        if kept is not None:
            from fencelock._core.lock.history import Recorder

            self._recorder = Recorder(given.key_prefix, kept, self._later)
        quorum, server = self._open(
            source,
            given,
            node_timeout=options.positive("node_timeout", node_timeout),
            replicas=options.acknowledgement(replicas, replicas_timeout),
        )
        self._defaults = given._replace(quorum=quorum, server=server)
        self._within = set()

    def __shared__(self) -> tuple[Any, str]:
        """Return its port and the prefix of its keys, for what operators ask."""
        return self._port, self._defaults.key_prefix

    @staticmethod
    def _later(port: Any, seconds: float, call: Callable[[], None]) -> bool:
        """Call a function after so many seconds, for a port; return False if that cannot be."""
        raise NotImplementedError

    def _open(
        self,
        source: SourceT | None,
        given: Defaults,
        *,
        node_timeout: float,
        replicas: options.Acknowledgement | None,
    ) -> tuple[bool, str]:
        """Make the port; return True if the source is a quorum, and its name for people."""
        raise NotImplementedError


class LockFactory(ClientBase, Generic[LockT, RLockT, OnLost]):
    """The factories of locks."""

    _lock: Callable[[Any, LockKeys, Settings], LockT]
    _rlock: Callable[[Any, LockKeys, Settings], RLockT]

    def lock(
        self,
        name: str,
        **given: Unpack[LockOptions[OnLost]],
    ) -> LockT:
        """Return a handle of the exclusive lock ``name``; sends nothing.

        ``ttl`` is the length of a lease, the client's by default; an aware ``datetime`` asks for a
        fixed lease until that instant. With ``renew`` it is renewed while held, at most
        ``max_renewals`` times and for ``max_hold`` seconds (None: without bound).
        ``cohort`` is how long waiters of this client may take turns, the client's by default; None
        grants to all clients in the order of arrival.
        ``timeout`` bounds ``with`` (None: waits for ever). ``wait`` is ``Queue()``, in line, or
        ``Poll(...)``, the plain form. ``strict`` makes a second acquire by the holding thread or
        task an error. ``deadlock_after`` is after how long a wait looks for a deadlock, the
        client's by default; None: this handle takes no part.
        ``template`` is the class of the name, such as ``"order:{order_id}"``: what metrics are
        labelled with and orders of locks are learnt for, of at most 128 characters; by default
        these see only that it is a lock.

        ``on_lost`` is called with the lease once it is lost: by a ``Client`` from a background
        thread, by an ``AsyncClient`` in the loop, where a coroutine function is awaited in a task
        of its own. There ``"cancel"`` cancels the body of ``async with``, which then raises
        LeaseLost.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        chosen = settings(self._defaults, cancels=self._asynchronous, **given)
        return self._lock(self._port, self._keys(name), chosen)

    def rlock(
        self,
        name: str,
        *,
        owner: str | None = None,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> RLockT:
        """Return a handle of the reentrant lock ``name``; sends nothing.

        Without ``owner`` the thread or task owns, as with ``threading.RLock``, and acquiring again
        sends nothing. With ``owner``, an id of your choice, all handles with that id own together,
        in any thread, task, process or host; the count of their holds lives on the server.
        The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        cancels = self._asynchronous
        chosen = settings(self._defaults, owner=owner, kind="rlock", cancels=cancels, **given)
        return self._rlock(self._port, self._keys(name), chosen)


class SemaphoreFactory(ClientBase, Generic[SemaphoreT, BoundedT, RWLockT, OnLost]):
    """The factories of what several may hold at once."""

    _hold_type: type[Hold]
    _semaphore: Callable[[Any, LockKeys, Settings, int], SemaphoreT]
    _bounded_semaphore: Callable[[Any, LockKeys, Settings, int], BoundedT]
    _rwlock: Callable[[Any, LockKeys, SideHolds, SideHolds], RWLockT]

    def semaphore(
        self,
        name: str,
        limit: int,
        **given: Unpack[SemaphoreOptions[OnLost]],
    ) -> SemaphoreT:
        """Return a handle of the semaphore ``name`` with ``limit`` permits; sends nothing.

        All clients that use a name at a time must give the same limit: another one is refused while
        a permit is held or waited for. Its ``set_limit`` changes the limit for all of them.
        The other options are those of ``lock``, for the lease of each acquisition.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.semaphore import checked_limit

        refuse(self._defaults.quorum, "semaphore")
        chosen = self._without_cohort("semaphore", **given)
        return self._semaphore(self._port, self._keys(name), chosen, checked_limit(limit))

    def bounded_semaphore(
        self,
        name: str,
        limit: int,
        **given: Unpack[SemaphoreOptions[OnLost]],
    ) -> BoundedT:
        """Return a handle whose release of more than it holds is a ValueError; sends nothing.

        Otherwise it is as ``semaphore`` with the same options, and the same object on the server.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.semaphore import checked_limit

        refuse(self._defaults.quorum, "semaphore")
        chosen = self._without_cohort("semaphore", **given)
        return self._bounded_semaphore(self._port, self._keys(name), chosen, checked_limit(limit))

    def rwlock(
        self,
        name: str,
        *,
        read_ttl: Seconds | None = None,
        write_ttl: Seconds | None = None,
        reentrant: bool = False,
        **given: Unpack[RWLockOptions[OnLost]],
    ) -> RWLockT:
        """Return a handle of the reader/writer lock ``name``; sends nothing.

        Its ``read`` and ``write`` are used as locks, with leases of ``read_ttl`` and ``write_ttl``
        (the client's ttl by default). ``reentrant`` lets a thread or task that writes enter the
        write side again; the read side is reentrant always. The other options are those of
        ``lock``, for both sides.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.semaphore_rwlock import READ, WRITE
        from fencelock._handles.rwlock import SideHolds, SideTable

        refuse(self._defaults.quorum, "rwlock")
        keys = self._keys(name)
        # one of several threads is first
        sides: SideTable = vars(self).setdefault("_sides", SideTable())

        def side(ttl: Seconds | None, side: int, *, again: bool) -> SideHolds:
            kind = "rwlock.read" if side == READ else "rwlock.write"
            chosen = self._without_cohort(kind, ttl=ttl, **given)
            return SideHolds(keys, chosen, self._hold_type, sides, side, reentrant=again)

        read = side(options.side_ttl("read_ttl", read_ttl), READ, again=True)
        write = side(options.side_ttl("write_ttl", write_ttl), WRITE, again=bool(reentrant))
        return self._rwlock(self._port, keys, read, write)


class StateFactory(ClientBase, Generic[EventT, LatchT, BarrierT]):
    """The factories of events, latches and barriers."""

    _event: Callable[[Any, EventSpec], EventT]
    _latch: Callable[[Any, EventSpec], LatchT]
    _barrier: Callable[[Any, BarrierSpec, Callable[[], object] | None, float | None], BarrierT]

    def event(self, name: str, *, idle_ttl: Seconds = options.IDLE_TTL) -> EventT:
        """Return a handle of the event ``name``; sends nothing.

        ``idle_ttl`` is how long an unused event is kept, a day: then it is clear.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.event_latch import EventSpec

        refuse(self._defaults.quorum, "event")
        kept = options.idle_ttl(idle_ttl)
        return self._event(self._port, EventSpec(self._signal_keys(name), b"event", kept))

    def latch(self, name: str, count: int, *, idle_ttl: Seconds = options.IDLE_TTL) -> LatchT:
        """Return a handle of the latch ``name``, which opens after ``count`` counts; sends nothing.

        All clients that use the name give the same count: another one is an error at its first use.
        While no client waits, a latch that was not counted down yet takes another count, and
        ``reset`` gives it to one that is open.
        ``idle_ttl`` is how long an unused latch is kept, a day: the next use starts afresh.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.event_latch import EventSpec

        refuse(self._defaults.quorum, "latch")
        whole = options.count("count", count)
        kept = options.idle_ttl(idle_ttl)
        return self._latch(self._port, EventSpec(self._signal_keys(name), b"latch", kept, whole))

    def barrier(
        self,
        name: str,
        parties: int,
        action: Callable[[], object] | None = None,
        timeout: Seconds | None = None,
        *,
        idle_ttl: Seconds = options.IDLE_TTL,
    ) -> BarrierT:
        """Return a handle of the barrier ``name`` for so many ``parties``; sends nothing.

        All clients that use the name give the same number: another one is an error once some
        parties have come; before, the barrier takes it. The last party to come runs its handle's
        ``action`` before all go on. ``timeout`` is that of ``wait``, for ever by default.
        ``idle_ttl`` is how long an unused barrier is kept, a day: the next use starts afresh.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.barrier import BarrierSpec

        refuse(self._defaults.quorum, "barrier")
        count = options.count("parties", parties)
        options.callback("action", action, asynchronous=self._asynchronous, given="")
        seconds, server_timeout = options.wait_timeout(timeout), self._defaults.server_timeout
        kept = options.idle_ttl(idle_ttl)
        spec = BarrierSpec(self._signal_keys(name), count, kept, action is not None, server_timeout)
        return self._barrier(self._port, spec, action, seconds)


class MultiFactory(ClientBase, Generic[MultiLockT, PartT, OnAnyLost]):
    """The factory of several locks at once."""

    @property
    def _parts(self) -> tuple[type, ...]:
        """Return the handles that may stand for their names."""
        raise NotImplementedError

    def multi(
        self,
        names: Iterable[str | PartT],
        **given: Unpack[MultiOptions[OnAnyLost]],
    ) -> MultiLockT:
        """Return a handle of several locks that are taken all or none; sends nothing.

        ``names`` are 1 to 100 different names of locks, in any order. A handle of this client may
        stand for its name: a lock, a side of a reader/writer lock (``rwlock.read``), or a
        semaphore, of which one permit is taken. It says what is taken; its own options do not
        count. ``on_lost`` is called with the lease of all, once, when one of them is lost. The
        other options are those of ``lock``, for each of them; ``timeout`` bounds ``with`` for all
        together. With ``renew=False`` the leases of the first run while the others are waited for.

        Raises:
            TypeError, ValueError: names or an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "multi")
        from fencelock._handles.multi import parts_of

        chosen = self._without_cohort("multi", **given)
        prefix = self._defaults.key_prefix
        parts = parts_of(prefix, names, port=self._port, kinds=self._parts)
        return self._multi(parts, chosen)

    def _multi(self, parts: list[LockKeys | Holds], chosen: Settings) -> MultiLockT:
        raise NotImplementedError


class ElectionFactory(ClientBase, Generic[ElectionT, LeaseT, OnLost]):
    """The factory of elections."""

    def election(
        self,
        name: str,
        *,
        candidate: str | None = None,
        on_elected: Callable[[LeaseT], object] | None = None,
        **given: Unpack[ElectionOptions[OnLost]],
    ) -> ElectionT:
        """Return a candidate of the election ``name``; sends nothing.

        ``candidate`` is its name, printable and of at most 128 bytes: ``host:pid`` by default.
        Names should differ; of two that are the same, a hand-over takes the first in line.
        ``on_elected`` is called with the lease, by ``campaign`` before it returns. ``on_lost`` is
        called with it once the leadership is lost, though not when it was given up. The other
        options are those of ``lock``; ``timeout`` bounds ``with``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "election")
        from fencelock._core.objects.election import ElectionKeys
        from fencelock._handles.election import candidate_name

        chosen = self._without_cohort("election", **given)
        keys = ElectionKeys(self._defaults.key_prefix, options.lock_name(name))
        known_as = candidate_name(candidate)
        options.callback("on_elected", on_elected, asynchronous=self._asynchronous)
        return self._election(keys, chosen, known_as, on_elected)

    def _election(
        self,
        keys: ElectionKeys,
        chosen: Settings,
        candidate: str,
        on_elected: Callable[[LeaseT], object] | None,
    ) -> ElectionT:
        raise NotImplementedError
