"""The client's factories of events, latches, barriers and conditions, for asyncio."""

from __future__ import annotations

from collections.abc import Callable

from fencelock import options
from fencelock._core.barrier import Crossing
from fencelock._core.condition import Place
from fencelock._core.keys import ConditionKeys, SignalKeys
from fencelock._core.signals import Gate
from fencelock._ports.aio import AioPort
from fencelock.aio.barrier import AsyncBarrier
from fencelock.aio.condition import AsyncCondition
from fencelock.aio.lock import AsyncLock, AsyncRLock
from fencelock.aio.signals import AsyncEvent, AsyncLatch
from fencelock.handles import Defaults
from fencelock.options import Seconds
from fencelock.quorums import refuse


class MakesSignals:
    """Makes what tasks wait for."""

    _defaults: Defaults
    lock: Callable[..., AsyncLock]

    def event(self, name: str, *, idle_ttl: Seconds = options.IDLE_TTL) -> AsyncEvent:
        """Return a handle of the event ``name``; sends nothing.

        ``idle_ttl`` is how long an event is kept that nobody uses, a day: then it is clear.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "event")
        kept = options.idle_ttl(idle_ttl)
        return AsyncEvent(self._port, Gate(self._signal_keys(name), b"event", kept))

    def latch(self, name: str, count: int, *, idle_ttl: Seconds = options.IDLE_TTL) -> AsyncLatch:
        """Return a handle of the latch ``name``, which opens after ``count`` counts; sends nothing.

        Whoever uses the name gives the same count: another one is an error at its first use. While
        nobody waits, a latch that was not counted down yet takes another count, and ``reset`` gives
        it to one that is open.
        ``idle_ttl`` is how long a latch is kept that nobody uses, a day: the next use begins anew.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "latch")
        whole = options.count("count", count)
        kept = options.idle_ttl(idle_ttl)
        return AsyncLatch(self._port, Gate(self._signal_keys(name), b"latch", kept, whole))

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

        Whoever uses the name gives the same number: another one is an error once some have come;
        before, the barrier takes it. The last party to come runs its handle's ``action`` before all
        go on. ``timeout`` is that of ``wait``, for ever by default. ``idle_ttl`` is how long a
        barrier is kept that nobody uses, a day: the next use begins anew.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "barrier")
        count = options.count("parties", parties)
        options.callback("action", action, asynchronous=True, given="")
        patience, patient = options.patience_of_wait(timeout), self._defaults.patience
        kept = options.idle_ttl(idle_ttl)
        crossing = Crossing(self._signal_keys(name), count, kept, action is not None, patient)
        return AsyncBarrier(self._port, crossing, action, patience)

    def condition(self, lock: AsyncLock | AsyncRLock | str, *, name: str = "") -> AsyncCondition:
        """Return a handle of a condition of a lock; sends nothing.

        ``lock`` is a handle that this client made, or a name: then it is ``lock(name)``, as in
        ``asyncio``. Several conditions of one lock have a ``name`` each.

        Raises:
            TypeError, ValueError: an option that cannot work, such as a lock of another client,
                with ``Poll`` or with an ``owner``; nothing was sent.
        """
        refuse(self._defaults.quorum, "condition")
        made = self.lock(lock) if isinstance(lock, str) else lock
        if not isinstance(made, (AsyncLock, AsyncRLock)):
            raise TypeError(f"lock must be a lock of this client or a name, not {lock!r}")
        if made._port != self._port:
            raise ValueError(
                f"the lock {made.name!r} is of another client: use that one's condition"
            )
        holds = made._holds
        if holds.settings.terms.plain or holds.settings.owner is not None:
            raise ValueError("a condition needs a lock with Queue() and without an owner")
        title = "" if name == "" else options.lock_name(name)
        return AsyncCondition(made, Place(ConditionKeys(holds.keys), made.name, title))

    def _port(self) -> AioPort:
        raise NotImplementedError

    def _signal_keys(self, name: str) -> SignalKeys:
        return SignalKeys(self._defaults.key_prefix, options.lock_name(name))
