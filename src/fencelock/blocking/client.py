# Generated from aio/client.py by generate_blocking.py: change that, and run the script.
"""The client for threads."""
# ruff: noqa: PLC0415 - few programs decorate or look, or keep a history

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.look import LISTED
from fencelock._handles.handle import Holds, options_of
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock._runtime.dates import datetime
from fencelock._runtime.hints import absent, with_hints
from fencelock._runtime.later import Later
from fencelock._runtime.typed import TYPE_CHECKING, Any, Literal, Self, Unpack, overload
from fencelock.blocking.caller import ASYNCHRONOUS, later, opened, result_of
from fencelock.blocking.factories import Factories
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import Lock
from fencelock.errors import NotAcquired
from fencelock.options import Cohort, History, LeaseOptions, Queue, Seconds, Wait

if TYPE_CHECKING:
    from fencelock.blocking.decorator_types import (
        Decorator,
        DecoratorWithLease,
        SkippingDecorator,
        SkippingDecoratorWithLease,
    )
    from fencelock.blocking.once import Once
    from fencelock.status import HistoryEntry, LockStatus, SignalStatus
else:
    _types = "fencelock.blocking.decorator_types"
    Decorator = Later(_types, "Decorator")
    DecoratorWithLease = Later(_types, "DecoratorWithLease")
    SkippingDecorator = Later(_types, "SkippingDecorator")
    SkippingDecoratorWithLease = Later(_types, "SkippingDecoratorWithLease")
    Once = Later("fencelock.blocking.once", "Once")
    HistoryEntry = Later("fencelock.status", "HistoryEntry")
    LockStatus = Later("fencelock.status", "LockStatus")
    SignalStatus = Later("fencelock.status", "SignalStatus")

OnLost = Callable[[Lease], object]


@with_hints
class Client(Factories):
    """Make locks over one server, for threads.

    ``source`` is a URL, a blocking client of redis-py or valkey-py, a list of them for a quorum, or
    None for the default; ``__init__`` describes it with the other options.

    Use it as a context manager, or call ``close()``. A client may be used by many threads; after a
    fork the child's copy holds nothing and opens its own connections.
    """

    if not TYPE_CHECKING:
        __getattr__ = absent

    # The calls of decorated functions that are under way.
    _within: set[tuple[object, ...]]

    def __init__(
        self,
        source: options.Source | None = None,
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
        log_waits_after: Seconds | None = options.LOG_WAITS_AFTER,
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
        ``log_waits_after`` is how long a wait for a lock lasts before it is a line of the log, at
        INFO, 10 s; further lines come ever later. None: no wait is logged.

        Raises:
            TypeError: ``source`` is something else, or a client of the other kind: ``Client`` takes
                blocking ones, ``AsyncClient`` those of asyncio.
            ValueError: an option or URL that cannot work.
        """
        self._prefix = options.key_prefix(key_prefix)
        self._server_timeout = options.positive("server_timeout", server_timeout)
        given = LeaseOptions(
            ttl=options.lease_ttl(ttl),
            label=None if label is None else options.text("label", label),
            cohort=options.cohort(cohort),
            deadlock_after=options.deadlock_after(deadlock_after),
        )
        kept, record = options.history(history), None
        if kept is not None:
            from fencelock._core.look.history import Recorder

            record = partial(Recorder, prefix=self._prefix, options=kept, later=later)
        self._port, quorum, server = opened(
            source,
            record,
            prefix=self._prefix,
            server_timeout=self._server_timeout,
            node_timeout=options.positive("node_timeout", node_timeout),
            replicas=options.acknowledgement(replicas, replicas_timeout),
            log_waits_after=options.log_waits_after(log_waits_after),
        )
        self._defaults = given._replace(quorum=quorum, acknowledged=bool(replicas), server=server)
        self._within = set()

    # -- decorators ---------------------------------------------------------------------------

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: None = None,
        **given: Unpack[options.LockedOptions[OnLost]],
    ) -> Decorator: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: str,
        **given: Unpack[options.LockedOptions[OnLost]],
    ) -> DecoratorWithLease: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: None = None,
        **given: Unpack[options.LockedOptions[OnLost]],
    ) -> SkippingDecorator: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: str,
        **given: Unpack[options.LockedOptions[OnLost]],
    ) -> SkippingDecoratorWithLease: ...

    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "skip", "raise"] = "wait",
        lease: str | None = None,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = Queue(),  # noqa: B008 - immutable
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
        template: str | None = None,
        cohort: Cohort | None = options.CLIENT_DEFAULT,
        linger: Seconds | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function so that each call holds a lock; sends nothing itself.

        ``name`` is a template in the form of ``str.format``: ``"order:{order_id}"`` takes the
        value from the call's arguments, by name, defaults included; ``{self.id}``, ``{days[0]}``
        and ``{day:%Y-%m-%d}`` work, private attributes do not. It is checked here, against the
        function's parameters. ``lease`` names a parameter that is given the lease; callers do not
        pass it. The other options are those of ``lock``; the default of ``template`` is ``name``.

        ``on_busy`` says what a call does when the lock is held: ``"wait"`` waits in line, for
        ``timeout`` seconds at most; ``"skip"`` returns None without a call, at once or after a
        ``timeout`` that is given; ``"raise"``
        raises NotAcquired at once. A call from within itself, with the same name and in the same
        thread or task, would wait for itself for ever: it is busy at once, and raises or skips.

        Methods work. A ``Client`` decorates functions that are not async, an ``AsyncClient`` only
        coroutine functions. Generators are refused, as they run on after the call has returned.

        Raises:
            TypeError, ValueError: the template, the function or an option cannot work.
        """
        from fencelock._handles import decorator

        pattern = decorator.template_of(name)
        given = options_of(locals()) | {"cancels": ASYNCHRONOUS}
        chosen = decorator.decorated_options(self._defaults, on_busy, pattern, **given)

        # Handles are kept for names that come again: making one costs as much as taking the lock.
        @lru_cache(maxsize=decorator.HANDLES_KEPT)
        def handle(name: str) -> Lock:
            return Lock(self._port, Holds(LockKeys(self._prefix, name), chosen, BlockingHold))

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            plan = decorator.NameTemplate(pattern, function, lease=lease, asynchronous=ASYNCHRONOUS)

            def guarded(*args: Any, **kwargs: Any) -> Any:
                call = plan.call(args, kwargs)
                lock = handle(call.name)
                me = (process.number(), process.here.unit, self._keys(call.name).lock)
                mark, began = decorator.RunningCalls(self._within, me), False
                try:
                    if mark.found:
                        raise decorator.nested_call_error(call.name, self._defaults.server)
                    with lock as held:
                        began = True
                        try:
                            mark.put()
                            return result_of(call.into(held), function)
                        finally:
                            mark.clear()
                except NotAcquired:
                    if began or on_busy != "skip":
                        raise
                    return None
                finally:
                    mark.clear()  # again: Ctrl-C may have come just before it was cleared

            return plan.dress(guarded)

        return decorate

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: None = None,
        **given: Unpack[options.OnceOptions[OnLost]],
    ) -> Once[None]: ...

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str,
        **given: Unpack[options.OnceOptions[OnLost]],
    ) -> Once[Lease]: ...

    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str | None = None,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
        template: str | None = None,
    ) -> Once[Any]:
        """Return what runs a function in one of many processes, once a period; sends nothing.

        ``name`` says what is run, best with the period in it: ``"draw:2026-11-21"``. Its result is
        kept for ``within`` seconds from the start of the run, and for a tenth of that, at most
        10 s, after its end: until then it is not run again, however quickly it ended. Choose
        ``within`` longer than the clocks of your hosts are apart, and shorter than the period of a
        name that stays the same.

        While it runs it holds the lock ``name``, with a lease of ``ttl`` that is renewed. Others
        return at once; with ``wait`` they wait for its result, at most ``timeout`` seconds, and
        run it themselves when it fails. ``lease`` names a parameter of the function that is given
        the lease. The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.decorator import once_settings

        options.refuse_over_quorum(self._defaults.quorum, "once")
        given = options_of(locals())
        chosen, run_settings = once_settings(
            self._defaults, self._within, within=within, lease=lease, cancels=ASYNCHRONOUS, **given
        )
        title = options.lock_name(name)
        return Once(self._port, self._prefix, title, chosen, run_settings)

    # -- looking into locks -------------------------------------------------------------------

    def locks(
        self,
        match: str = "*",
        *,
        names: Iterable[str] | None = None,
        waiters: int = LISTED,
        recent: bool = False,
    ) -> list[LockStatus]:
        """Return which locks are held, kept or waited for, in any process, sorted by name.

        ``match`` is a pattern as in a shell, such as ``"orders:*"``. With ``names`` it returns
        just these, in this order and in any state; that asks for up to 500 of them by one command
        and needs no SCAN. ``waiters`` is how many waiters, and holders of permits, of each are
        listed; the numbers are complete. ``recent`` adds locks that were released in the last ten
        minutes. Locks that only other programs take, with a plain SET, are found by ``names``.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for SCAN.
            QuorumNotReached: too few nodes answered.
        """
        from fencelock._core.look.show import Looker

        return run_blocking(
            Looker(self._port, self._prefix).locks(
                match, names, waiters=waiters, recent=bool(recent)
            )
        )

    def status(self, name: str, *, waiters: int = LISTED) -> LockStatus:
        """Return who holds the lock, semaphore or reader/writer lock ``name``, and who waits.

        Up to ``waiters`` waiters, and holders of permits, are listed; the numbers are complete. It
        is true for one moment: do not ask whether a lock is free before acquiring it.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring.
            QuorumNotReached: too few nodes answered.
        """
        from fencelock._core.look.show import Looker

        listed = options.count("waiters", waiters, least=0)
        return run_blocking(Looker(self._port, self._prefix).show(self._keys(name), listed))

    def revoke(
        self,
        name: str,
        *,
        reason: str,
        only: tuple[str, int] | None = None,
        by: str | None = None,
    ) -> LockStatus | None:
        """Take a lock away from its holder, in any process; the next waiter is granted it.

        The holder is notified at once, and its LeaseLost carries ``reason``. A semaphore or
        reader/writer lock is taken from all its holders. ``only`` is the host and process id from
        which alone it is taken, such as ``status.holder.process``. The history says that ``by``
        did it: by default the user and the host of this process.
        Returns the status of before, with the holders that it was taken from; None if there were
        none. A holder that is notified works on until its code reacts: only its fence is safe.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerUnsuitable: the key of the name holds something that is not a lock.
            ServerError: as from acquiring.
            OutcomeUnknown: the request may or may not have run; do it again.
            QuorumNotReached: too few nodes answered.
        """
        from fencelock._core.look.show import Looker

        return run_blocking(
            Looker(self._port, self._prefix).revoke(self._keys(name), reason, only, by)
        )

    def signals(
        self, match: str = "*", *, names: Iterable[str] | None = None
    ) -> list[SignalStatus]:
        """Return the events, latches and barriers of all clients, sorted by name.

        ``match`` is a pattern as in a shell. With ``names`` it returns those of them that are
        events, latches or barriers, and needs no SCAN. A quorum has none.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for SCAN.
        """
        from fencelock._core.look.show import Looker

        return run_blocking(Looker(self._port, self._prefix).signals(match, names))

    def history(
        self, name: str | None = None, *, within: Seconds | None = None, limit: int = 1000
    ) -> list[HistoryEntry]:
        """Return what clients with the option ``history`` kept, of all names or one, by time.

        The newest ``limit`` entries are returned; with ``within`` only those of the last so many
        seconds. Without a client with that option it is empty.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for XREVRANGE.
            QuorumNotReached: too few nodes answered.
        """
        from fencelock._core.look.show import Looker

        return run_blocking(Looker(self._port, self._prefix).history(name, within, limit))

    def close(self, *, release: bool = False, timeout: Seconds = options.SHUTDOWN) -> None:
        """Close idle connections; leases that are still held end by their ttl.

        Waits up to 1 s for answers that are due, and gives back what they grant. Using the
        client's locks afterwards raises ClientClosed, as do the calls that wait for
        one now.

        With ``release`` the leases are given back, to the next in line: the latest acquired first,
        an election to the next candidate. Their holders lose them before that. It ends within
        ``timeout`` seconds, 5 by default: less than the 10 s after which Docker and others kill a
        process. What was not given back by then is named in the log, and ends by its ttl.

        Raises:
            TypeError, ValueError: an argument that cannot work, such as a timeout that is not
                positive; nothing was closed.
        """
        seconds = options.positive("timeout", timeout)
        options.flag("release", release)
        port = self._port  # one that was never used is closed, too
        if port.recorder is not None:
            port.recorder.drop()
        if release:
            port.shut(seconds, release=True)
        else:
            port.shut()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        given = getattr(self, "_defaults", None)  # none: its options were refused
        return f"<fencelock.Client of {'nothing' if given is None else given.server}>"
