"""What makes the handles of a client, for asyncio.

Rules of this file:

- A factory sends nothing: it checks its options and returns a handle.
- What few programs use is imported when its factory is first called: a command of the shell pays
  for each module when it starts.
- An option that several factories take is explained in ``lock``, and checked in
  ``handles.lease_options``. A factory names it once, in its signature: what it was called with,
  its ``locals()``, goes to the check as it is.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fencelock import options
from fencelock._core.keys import LockKeys, SignalKeys
from fencelock._handles.handle import Holds, ReentrantHolds, lease_options, options_of
from fencelock._io.port_asyncio import AioPort
from fencelock._runtime.dates import datetime
from fencelock._runtime.later import Later
from fencelock._runtime.process import ProcessBound
from fencelock._runtime.typed import TYPE_CHECKING, Any, Literal
from fencelock.aio.caller import ASYNCHRONOUS
from fencelock.aio.lease import AsyncHold, AsyncLease, AsyncMultiLease
from fencelock.aio.lock import AsyncLock, AsyncRLock
from fencelock.options import Cohort, LeaseOptions, Queue, Seconds, Wait

if TYPE_CHECKING:
    from fencelock._handles.redisson import EntryTable
    from fencelock._handles.rwlock import SideHolds, SideTable
    from fencelock.aio.barrier import AsyncBarrier
    from fencelock.aio.election import AsyncElection
    from fencelock.aio.event_latch import AsyncEvent, AsyncLatch
    from fencelock.aio.multi import AsyncMultiLock
    from fencelock.aio.rwlock import AsyncReadLock, AsyncRWLock, AsyncWriteLock
    from fencelock.aio.semaphore import AsyncBoundedSemaphore, AsyncSemaphore
else:
    AsyncBarrier = Later("fencelock.aio.barrier", "AsyncBarrier")
    AsyncBoundedSemaphore = Later("fencelock.aio.semaphore", "AsyncBoundedSemaphore")
    AsyncElection = Later("fencelock.aio.election", "AsyncElection")
    AsyncEvent = Later("fencelock.aio.event_latch", "AsyncEvent")
    AsyncLatch = Later("fencelock.aio.event_latch", "AsyncLatch")
    AsyncMultiLock = Later("fencelock.aio.multi", "AsyncMultiLock")
    AsyncRWLock = Later("fencelock.aio.rwlock", "AsyncRWLock")
    AsyncReadLock = Later("fencelock.aio.rwlock", "AsyncReadLock")
    AsyncSemaphore = Later("fencelock.aio.semaphore", "AsyncSemaphore")
    AsyncWriteLock = Later("fencelock.aio.rwlock", "AsyncWriteLock")


class AsyncFactories(ProcessBound):
    """The factories of a client, and what they need of it."""

    _port: Callable[[], AioPort]
    _defaults: LeaseOptions
    _prefix: str
    # The holds of reader/writer locks.
    _sides: SideTable

    def __shared__(self) -> tuple[Callable[[], AioPort], str]:
        """Return its port and the prefix of its keys, for what operators ask."""
        return self._port, self._prefix

    def _keys(self, name: str) -> LockKeys:
        return LockKeys(self._prefix, options.lock_name(name))

    def _signal_keys(self, kind: str, name: str) -> SignalKeys:
        options.refuse_over_quorum(self._defaults.quorum, kind)
        return SignalKeys(self._prefix, options.lock_name(name))

    def _options(self, call: Mapping[str, Any], **also: Any) -> LeaseOptions:
        """Check the options among the arguments of a factory, which are its ``locals()``."""
        return lease_options(self._defaults, **options_of(call), cancels=ASYNCHRONOUS, **also)

    def _without_cohort(self, kind: str, call: Mapping[str, Any]) -> LeaseOptions:
        """Check the same for an object whose waiters each stand in line for themselves."""
        options.refuse_over_quorum(self._defaults.quorum, kind)
        return self._options(call, cohort=None, kind=kind)

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
        template: str | None = None,
        strict: bool = False,
        cohort: Cohort | None = options.CLIENT_DEFAULT,
        linger: Seconds | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncLock:
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
        chosen = self._options(locals())
        return AsyncLock(self._port, Holds(self._keys(name), chosen, AsyncHold))

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
        template: str | None = None,
        cohort: Cohort | None = options.CLIENT_DEFAULT,
        linger: Seconds | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncRLock:
        """Return a handle of the reentrant lock ``name``; sends nothing.

        Without ``owner`` the thread or task owns, as with ``threading.RLock``, and acquiring again
        sends nothing. With ``owner``, an id of your choice, all handles with that id own together,
        in any thread, task, process or host; the count of their holds lives on the server. Keep
        the handle that acquired: it renews the lease. One that holds nothing may release for the
        owner, too.
        In a pool of threads all jobs that a thread or task runs are one owner: acquire and release
        in one job, or give each an ``owner``.
        The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        chosen = self._options(locals(), kind="rlock")
        return AsyncRLock(self._port, ReentrantHolds(self._keys(name), chosen, AsyncHold))

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        template: str | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncSemaphore:
        """Return a handle of the semaphore ``name`` with ``limit`` permits; sends nothing.

        All clients that use a name at a time must give the same limit: another one is refused while
        a permit is held or waited for. Its ``set_limit`` changes the limit for all of them;
        handles that name the first limit or one of the last seven go on working.
        The other options are those of ``lock``, for the lease of each acquisition.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.semaphore import SemaphoreHolds

        chosen = self._without_cohort("semaphore", locals())
        permits = SemaphoreHolds(self._keys(name), chosen, AsyncHold, limit, bounded=False)
        return AsyncSemaphore(self._port, permits)

    def bounded_semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        template: str | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncBoundedSemaphore:
        """Return a handle whose release of more than it holds is a ValueError; sends nothing.

        Otherwise it is as ``semaphore`` with the same options, and the same object on the server.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.semaphore import SemaphoreHolds

        chosen = self._without_cohort("semaphore", locals())
        permits = SemaphoreHolds(self._keys(name), chosen, AsyncHold, limit, bounded=True)
        return AsyncBoundedSemaphore(self._port, permits)

    def rwlock(
        self,
        name: str,
        *,
        read_ttl: Seconds | None = None,
        write_ttl: Seconds | None = None,
        reentrant: bool = False,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        template: str | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncRWLock:
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

        options.refuse_over_quorum(self._defaults.quorum, "rwlock")
        call, keys = locals(), self._keys(name)
        # one of several threads is first
        sides: SideTable = vars(self).setdefault("_sides", SideTable())

        def holds(which: str, side: int, ttl: Seconds | None, *, again: bool) -> SideHolds:
            if ttl is not None:
                options.lease_ttl(ttl, f"{which}_ttl")
            chosen = self._options({**call, "ttl": ttl}, cohort=None, kind=f"rwlock.{which}")
            return SideHolds(keys, chosen, AsyncHold, sides, side, reentrant=again)

        read = holds("read", READ, read_ttl, again=True)
        write = holds("write", WRITE, write_ttl, again=options.flag("reentrant", reentrant))
        return AsyncRWLock(self._port, read, write)

    def __redisson__(
        self, call: Mapping[str, Any], other: Mapping[str, object]
    ) -> tuple[Callable[[], AioPort], LeaseOptions, EntryTable]:
        """Return what a handle of ``compat.redisson`` needs of its client, for these options.

        ``other`` are those that such a lock lacks: it is an error if there are any.
        """
        from fencelock._core.objects.redisson import ONE_TURN
        from fencelock._handles.redisson import EntryTable, refuse_lacking

        refuse_lacking(other, self._defaults)
        fixed = call["lease_time"] is not None
        by = "lease_time" if fixed else "watchdog_timeout"
        ttl = options.lease_ttl(call[by], by)
        chosen = self._options({**call, "ttl": ttl, "renew": not fixed})
        table: EntryTable = vars(self).setdefault("_entries", EntryTable())  # as in ``rwlock``
        chosen = chosen._replace(cohort=ONE_TURN, deadlock_after=None)
        return self._port, chosen, table

    def event(self, name: str, *, idle_ttl: Seconds = options.IDLE_TTL) -> AsyncEvent:
        """Return a handle of the event ``name``; sends nothing.

        ``idle_ttl`` is how long an unused event is kept, a day: then it is clear.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.state_wait import StateSpec

        keys, kept = self._signal_keys("event", name), options.idle_ttl(idle_ttl)
        return AsyncEvent(self._port, StateSpec(keys, b"event", kept))

    def latch(self, name: str, count: int, *, idle_ttl: Seconds = options.IDLE_TTL) -> AsyncLatch:
        """Return a handle of the latch ``name``, which opens after ``count`` counts; sends nothing.

        All clients that use the name give the same count: another one is an error at its first use.
        While no client waits, a latch that was not counted down yet takes another count, and
        ``reset`` gives it to one that is open.
        ``idle_ttl`` is how long an unused latch is kept, a day: the next use starts afresh.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.state_wait import StateSpec

        keys, kept = self._signal_keys("latch", name), options.idle_ttl(idle_ttl)
        return AsyncLatch(
            self._port, StateSpec(keys, b"latch", kept, options.count("count", count))
        )

    def barrier(
        self,
        name: str,
        parties: int,
        action: Callable[[], object] | None = None,
        timeout: Seconds | None = None,
        *,
        idle_ttl: Seconds = options.IDLE_TTL,
    ) -> AsyncBarrier:
        """Return a handle of the barrier ``name`` for so many ``parties``; sends nothing.

        All clients that use the name give the same number: another one is an error once some
        parties have come; before, the barrier takes it. The last party to come runs its handle's
        ``action`` before all go on. ``timeout`` is that of ``wait``, for ever by default.
        ``idle_ttl`` is how long an unused barrier is kept, a day: the next use starts afresh.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._core.objects.state_wait import StateSpec

        keys, kept = self._signal_keys("barrier", name), options.idle_ttl(idle_ttl)
        count = options.count("parties", parties)
        options.callback("action", action, asynchronous=ASYNCHRONOUS, given="")
        spec = StateSpec(keys, b"barrier", kept, count, acts=action is not None)
        return AsyncBarrier(self._port, spec, action, options.wait_timeout(timeout))

    def multi(
        self,
        names: Iterable[str | AsyncLock | AsyncReadLock | AsyncWriteLock | AsyncSemaphore],
        *,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[AsyncMultiLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        template: str | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> AsyncMultiLock:
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
        from fencelock._handles.multi import MultiHolds, parts_of
        from fencelock.aio.rwlock import AsyncReadLock, AsyncWriteLock
        from fencelock.aio.semaphore import AsyncSemaphore

        chosen = self._without_cohort("multi", locals())
        kinds = (AsyncLock, AsyncReadLock, AsyncWriteLock, AsyncSemaphore)

        def named(name: str) -> Holds:
            return Holds(self._keys(name), chosen, AsyncHold)

        parts = parts_of(names, named, port=self._port, kinds=kinds)
        return AsyncMultiLock(self._port, MultiHolds(parts, chosen, AsyncMultiLease))

    def election(
        self,
        name: str,
        *,
        candidate: str | None = None,
        on_elected: Callable[[AsyncLease], object] | None = None,
        ttl: Seconds | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        label: str | None = None,
        template: str | None = None,
    ) -> AsyncElection:
        """Return a candidate of the election ``name``; sends nothing.

        ``candidate`` is its name, printable and of at most 128 bytes: ``host:pid`` by default.
        Names should differ; of two that are the same, a hand-over takes the first in line.
        ``on_elected`` is called with the lease, by ``campaign`` before it returns. ``on_lost`` is
        called with it once the leadership is lost, though not when it was given up. The other
        options are those of ``lock``; ``timeout`` bounds ``with``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.election import CandidateHolds

        chosen = self._without_cohort("election", locals())
        options.callback("on_elected", on_elected, asynchronous=ASYNCHRONOUS)
        holds = CandidateHolds(self._keys(name), chosen, AsyncHold, candidate)
        return AsyncElection(self._port, holds, on_elected=on_elected)
