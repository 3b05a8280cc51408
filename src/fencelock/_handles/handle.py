"""Shared state of handles, for threads and asyncio: their options and their holds.

Rules of this file:

- Each acquisition is a hold of its own with its own unguessable ids; a handle only keeps them.
- A release takes the hold of the calling thread or task, if it has one; otherwise the newest
  (any thread may release a Lock). So an overdue holder never releases its successor's hold.
- Nothing here sends, waits, or takes a lock: list operations are atomic, and ``__del__`` may run
  anywhere.
"""

from __future__ import annotations

import math
import socket
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from fencelock import options
from fencelock._core import events
from fencelock._core.description import HeldBy
from fencelock._core.engine import holder_of
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._handles.body import Bodies, Body
from fencelock._runtime import process
from fencelock._runtime.dates import datetime
from fencelock._runtime.hints import calling_level
from fencelock._runtime.log import log
from fencelock._runtime.mutex import outside
from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeAlias, TypeVar
from fencelock.errors import AcquireTimeout, NotAcquired, NotHeld
from fencelock.options import LeaseOptions, Poll, Queue, Seconds, Wait

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

DESCRIPTION_BYTES_MAX = 64  # of each thing that `show` prints
SPACE = 0x20  # it and all below would end a field of a record
_HOST = socket.gethostname()

AnyTerms = TypeVar("AnyTerms", bound=Terms)


def lease_options(
    given: LeaseOptions,
    *,
    ttl: Seconds | datetime | None = None,
    renew: bool = True,
    max_hold: Seconds | None = None,
    max_renewals: int | None = None,
    timeout: Seconds | None = None,
    wait: Wait = Queue(),  # noqa: B008 - immutable
    on_lost: object = None,
    label: str | None = None,
    template: str | None = None,
    strict: bool = False,
    cohort: object = options.CLIENT_DEFAULT,
    linger: Seconds | None = None,
    deadlock_after: object = options.CLIENT_DEFAULT,
    owner: str | None = None,
    kind: str = "lock",
    cancels: bool,
) -> LeaseOptions:
    """Check the options of a handle of a client; ``cancels`` allows ``on_lost="cancel"``."""
    instant = ttl if isinstance(ttl, datetime) else None
    if instant is not None:
        options.until(instant)
    span = options.TTL_MAX if instant else given.ttl if ttl is None else options.lease_ttl(ttl)
    if not isinstance(wait, (Queue, Poll)):
        raise TypeError(f"wait must be Queue() or Poll(...), not {wait!r}")
    plain = isinstance(wait, Poll)
    if max_renewals is not None:
        options.count("max_renewals", max_renewals, least=0, most=math.inf)
    options.refuse_over_quorum(given.quorum and plain, "Poll")
    options.refuse_over_quorum(given.quorum and owner is not None, "owner")
    chosen = given._replace(
        ttl=span,
        renew=options.flag("renew", renew) and instant is None,
        max_hold=None if max_hold is None else options.positive("max_hold", max_hold),
        max_renewals=max_renewals,
        on_lost=_on_lost(on_lost, cancels=cancels),
        instant=instant,
        cohort=given.cohort if cohort is options.CLIENT_DEFAULT else options.cohort(cohort),
        deadlock_after=options.deadlock_after(deadlock_after, given.deadlock_after),
        plain=plain,
        interval=wait.interval if isinstance(wait, Poll) else 0.0,
        max_tries=wait.max_tries if isinstance(wait, Poll) else None,
        kind=kind,
        template="" if template is None else options.template(template),
        timeout=options.acquire_timeout(timeout, blocking=True),
        label=given.label if label is None else options.text("label", label),
        strict=options.flag("strict", strict),
        owner=None if owner is None else _owner(owner, plain=plain),
    )
    if linger is not None:
        _refuse_linger(chosen)
        chosen = chosen._replace(linger=options.linger(linger, chosen.first_ttl()))
    doubtful = kind in {"lock", "rlock"} and ttl is None  # as redis-py has them
    chosen = chosen._replace(lone_timeout=doubtful and bool(chosen.timeout))
    return _shared(chosen) if chosen.on_lost is None else chosen


@lru_cache(maxsize=256)
def _shared(chosen: LeaseOptions) -> LeaseOptions:
    """Return options as one object for all handles that have the same: there may be very many."""
    return chosen


def options_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a lease among the arguments of a factory, its ``locals()``."""
    known: dict[str, Any] = lease_options.__kwdefaults__  # type: ignore[assignment]  # it has some
    return {name: call[name] for name in known if name in call}


def _refuse_linger(chosen: LeaseOptions) -> None:
    """Raise ValueError where no lease can be kept."""
    reason = {
        "does not work over a quorum: its leases are on several servers": chosen.quorum,
        "needs wait=Queue(): Poll hears no recall": chosen.plain,
        "does not work with owner: other clients may hold by the same id": chosen.owner is not None,
        "needs a cohort: cohort=None keeps no lease": chosen.cohort is None,
        "needs a ttl in seconds: a lease until an instant is not short": chosen.fixed_end,
        "needs renew=True: a lease that is kept begins short, and grows": not chosen.renew,
    }
    for why, applies in reason.items():
        if applies:
            raise ValueError(f"linger {why}")


def _owner(value: str, *, plain: bool) -> bytes:
    if plain:
        raise ValueError("owner needs wait=Queue(): Poll keeps no count on the server")
    owner = options.utf8("owner", options.text("owner", value))
    if len(owner) > options.NAME_BYTES_MAX:
        raise ValueError(f"owner must have at most {options.NAME_BYTES_MAX} bytes")
    # Ids stand in space-separated records, so anything but plain characters is escaped.
    return b"owner:" + b"".join(
        b"%c" % byte if byte > SPACE and byte not in b"%\x7f" else b"%%%02x" % byte
        for byte in owner
    )


def _on_lost(value: object, *, cancels: bool) -> Any:
    if isinstance(value, str) and value == "cancel":
        if cancels:
            return value
        raise ValueError('on_lost="cancel" cancels tasks: it needs AsyncClient')
    also = ', "cancel"' if cancels else ""
    return options.callback("on_lost", value, asynchronous=cancels, also=also)


# The process id and unit of the program that a command of the shell acts for; see _operator.py.
acting_for: tuple[int, str] | None = None


# The thread or task that makes a request, or the name of something else that does. gevent's threads
# are of classes of its own.
Caller: TypeAlias = Any


def describe(caller: Caller, label: str | None) -> bytes:
    """Return what ``show`` prints of a holder or waiter: compact JSON of bounded size.

    The number of a thread or task tells it from others of its name; the name may be anything.
    """
    if acting_for is not None:
        text = _described(*acting_for, None, label)
    elif type(caller) is process.ThreadUnit:
        text = _described(process.pid, caller.thread.name, caller.number, label)
    elif isinstance(caller, str):
        text = _described(process.pid, caller, None, label)
    else:
        text = _described(process.pid, caller.get_name(), id(caller), label)
    if events.tracers and (trace := events.trace()):
        return b'%b,"trace":%b}' % (text[:-1], _json(trace))  # the last word: few have the same
    return text


@lru_cache(maxsize=1024)
def _described(pid: int, unit: str, number: int | None, label: str | None) -> bytes:
    numbered = b',"id":"%x"' % number if number else b""
    labelled = b',"label":%b' % _json(label) if label else b""
    return b'{"host":%b,"pid":%d,"unit":%b%b%b}' % (
        *(_json(_HOST), pid, _json(unit), numbered, labelled),
    )


def _json(text: str) -> bytes:
    """Return a text in JSON, cut to its bound, with nothing in it that a terminal would obey.

    The module ``json`` would slow down each start.
    """
    printable = "".join(char if char.isprintable() else "?" for char in text)
    cut = printable.encode(errors="replace")[:DESCRIPTION_BYTES_MAX].decode(errors="ignore")
    quoted = cut.replace("\\", r"\\").replace('"', r"\"")
    return f'"{quoted}"'.encode()


class DropFinalizer:
    """Calls ``dropped`` of a handle's holds once the handle is gone; its finalizer makes it.

    The collector runs the finalizers of a cycle in any order: that of a generator, which ends its
    ``with`` and releases, may run after that of the handle. The collector frees the objects only
    when all finalizers have run; this one is freed with the handle.
    """

    __slots__ = ("_dropped",)

    def __init__(self, dropped: Callable[[], None]) -> None:
        self._dropped = dropped

    def __del__(self) -> None:
        """Stop renewing holds that no code can release any more."""
        self._dropped()


class Holds:
    """The holds of one handle, newest last."""

    __slots__ = ("_generation", "_terms", "bodies", "held", "hold_type", "keys", "options")

    counts: bool = False  # ``Hold.count`` is how often a thread or task has entered
    forget: Callable[[Hold], None] | None = None  # what else knows of a hold that is taken out

    def __init__(self, keys: LockKeys, options: LeaseOptions, hold_type: type[Hold]) -> None:
        self.hold_type: type[Hold] = hold_type
        self.keys: LockKeys = keys
        self.options: LeaseOptions = options
        self.held: list[Hold] = []
        self.bodies: Bodies = Bodies()
        self._terms: Terms | None = None
        self._generation = process.number()
        process.patched()

    def _now(self) -> list[Hold]:
        """Return the holds of this process: after a fork there are none."""
        if self._generation != process.mark[0]:
            self.held, self._generation = [], process.number()
        return self.held

    def all(self) -> tuple[Hold, ...]:
        """Return the holds, oldest first."""
        return tuple(self._now())

    def attempt(self, port: Engine, caller: Caller) -> Hold:
        """Return a fresh attempt by a thread or task."""
        if not process.mark[0]:
            process.notice()
        terms, chosen = self._terms, self.options
        if terms is None or terms.client_channel is not port.client_channel:
            terms = self.new_terms(Terms, port, owned=chosen.owner is not None)
            self._terms = terms if chosen.instant is None else None  # then each lasts otherwise
        if terms.linger and not events.tracers:  # see ``Attempt.introduce``
            own_id = info = b""
        else:
            own_id, info = terms.mark + port.new_id(), describe(caller, chosen.label)
        return self.hold_type(terms, own_id, info, chosen.owner, registry=self, unit=caller)

    def describe(self, caller: Caller) -> bytes:
        """Return the description of a thread or task that uses the handle."""
        return describe(caller, self.options.label)

    def attempt_on(self, terms: Terms, port: Engine, caller: Caller, info: bytes = b"") -> Hold:
        """Return a fresh attempt on other terms than the handle's usual ones."""
        info = info or self.describe(caller)
        return self.hold_type(terms, port.new_id(), info, registry=self, unit=caller)

    def new_terms(self, made: Callable[..., AnyTerms], port: Engine, /, **given: Any) -> AnyTerms:
        """Return the terms of a lease that begins now."""
        return made(
            keys=self.keys,
            options=self.options,
            client_channel=port.client_channel,
            ttl=self.options.ttl_now(),
            ends=self.options.ends(port.now()),
            **given,
        )

    def again(self, unit: object) -> Hold | None:
        """Return the hold that a thread or task enters once more, or None.

        Raises NotAcquired where it may not enter again: the holder of a strict handle.
        """
        if self.options.strict and self.of(unit) is not None:
            text = f"already locked: {self.keys.name!r} is held by this thread or task"
            raise NotAcquired(text, **self.about())
        return None

    def answered(self, port: Engine, attempt: Hold, hold: Hold | None) -> None:
        """Take note of how an attempt has ended."""

    def part(self, options: LeaseOptions) -> Holds:
        """Return the holds of the same lock for a multi, with the multi's options."""
        return Holds(self.keys, options, self.hold_type)

    def doubt_timeout(self) -> None:
        """Warn of an ``acquire`` that does not use the handle's timeout: maybe a ttl was meant."""
        name, timeout = self.keys.name, self.options.timeout
        warnings.warn(
            f"timeout={timeout:g} of {name!r} limits its with block; acquire() has its own. If"
            f" you mean the length of the lease, as in redis-py, write ttl={timeout:g}",
            UserWarning,
            stacklevel=calling_level(),
        )

    @property
    def title(self) -> object:
        """Return what a message about a release calls the lock."""
        return self.keys.name

    def listed(self) -> str:
        """Return what other messages call it."""
        return repr(self.keys.name)

    def about(self) -> dict[str, Any]:
        """Return what errors carry apart from their message: the lock's name and its server."""
        return {"name": self.keys.name, "server": self.options.server}

    def about_wait(self, held_by: Sequence[HeldBy]) -> dict[str, Any]:
        """Return what errors of a wait carry: also who held the lock in the last of its answers."""
        return self.about() | {"held_by": held_by[-1].status if held_by else None}

    def not_granted(self, attempt: Any) -> NotAcquired:
        """Return the error for a ``with`` that did not get the lock, and for whom it waited."""
        name, timeout = self.keys.name, self.options.timeout
        about = self.about_wait(attempt.held_by)
        if self.options.instant is not None and options.until(self.options.instant) <= 0:
            why = f"before its lease was to end, {self.options.instant}"
            return AcquireTimeout(f"{name!r} was not granted {why}", **about)
        if timeout is None:
            return NotAcquired(f"{name!r} was not free in any try", **about)
        if timeout < 0:
            return NotAcquired(f"{name!r} is held, or other waiters come first", **about)
        text = f"{name!r} was not granted within its timeout of {timeout:g} s"
        return AcquireTimeout(text, **about)

    def add(self, hold: Hold) -> None:
        """Keep a hold."""
        if self._generation != process.mark[0]:
            self._now()
        self.held.append(hold)

    def of(self, unit: object) -> Hold | None:
        """Return the newest hold of a thread or task."""
        holds = self.held if self._generation == process.mark[0] else self._now()
        for hold in reversed(holds):
            if hold.unit == unit:
                return hold
        return None

    def newest(self) -> Hold | None:
        """Return the newest hold of any thread or task."""
        return next(reversed(self._now()), None)

    def holder_ids(self) -> set[bytes]:
        """Return the ids under which this handle may be known to the server."""
        return {each for hold in tuple(self._now()) for each in hold.ids}

    async def is_owned(self, port: Engine) -> bool:
        """Ask whether this handle holds the lock now; sends nothing when it holds nothing."""
        mine = self.holder_ids()
        return bool(mine) and await holder_of(port, self.keys) in mine

    async def is_busy(self, port: Engine) -> bool:
        """Ask whether the lock would have to be waited for now."""
        return await holder_of(port, self.keys) is not None

    def take(self, unit: object, taken: list[Hold], *, only_own: bool = False) -> None:
        """Take out the hold that a release by ``unit`` means; NotHeld when there is none.

        It goes into ``taken``, as with all that take: see ``take_out``.
        """
        while True:
            holds = self.held if self._generation == process.mark[0] else self._now()
            for hold in reversed(holds):
                if hold.unit == unit:
                    break
            else:
                found = self.newest()
                if only_own:  # that of a task that has ended, which cannot release it any more
                    ended = [hold for hold in holds if getattr(hold.unit, "done", bool)()]
                    found = ended[-1] if ended else None
                if found is None:
                    raise self.not_held()
                hold = found
            if self.take_out(hold, taken):
                return

    def of_body(self, body: Body) -> Hold:
        """Return the hold that the end of a body means; NotHeld when it was released inside.

        What was acquired instead by the same thread or task counts, unless it is another body's.
        """
        holds = self._now()
        if body.held in holds:
            return body.held  # type: ignore[no-any-return]  # it is in a list of holds
        for hold in reversed(holds):
            if hold.unit == body.unit and not self.bodies.hold(body, hold):
                return hold
        self.bodies.discard(body)
        raise self.not_held()

    def watched(self, body: Body) -> Body | None:
        """Return the body whose task a loss may have cancelled, if this is the last of its hold."""
        return None if self.bodies.hold(body) else body.held.body

    def take_of_body(self, body: Body, taken: list[Hold]) -> None:
        """Take out the hold that the end of a body means; NotHeld when it was released inside."""
        hold = self.of_body(body)
        while not self.take_out(hold, taken):
            hold = self.of_body(body)  # another thread was faster: it may mean an older one
        self.bodies.discard(body)

    def take_back(self, body: Body) -> Sequence[Hold]:
        """End an interrupted body, or acquire; return what is left of it to release."""
        self.bodies.discard(body)
        hold = body.held
        if hold is None and body.attempt is not None and body.attempt.held:
            hold = body.attempt
        if hold is None or hold.forked:
            return ()
        if self.counts and hold.count > 1:
            hold.count, body.held = hold.count - 1, None
            return ()
        return (hold,) if self.remove(hold) else ()

    def unsure(self) -> NotHeld:
        """Return the error for the end of a body that may be any of several."""
        text = (
            f"which body with {self.listed()} ends here is unknown: several are open, begun by"
            " other threads or tasks, so nothing was released; make a handle for each, or put the"
            " with statement into a generator"
        )
        return NotHeld(text, **self.about())

    def take_out(self, hold: Hold, taken: list[Hold]) -> bool:
        """Take out a hold, and note it in the releasing flow's list; False as ``remove``.

        It is noted first. A signal handler's exception could lose a return value on its way to the
        flow; a hold in the list is released in any case. The caller has just found it, among the
        holds of this process.
        """
        try:
            taken.append(hold)
            try:
                self.held.remove(hold)
            except ValueError:
                taken.clear()
                return False
            if self.forget is not None:
                self.forget(hold)
        except BaseException:  # a signal handler raised: the flow releases what it has
            if taken:
                self.remove(hold)
            raise
        return True

    def remove(self, hold: Hold) -> bool:
        """Take out a hold; False when another thread was faster."""
        holds = self.held if self._generation == process.mark[0] else self._now()
        try:
            holds.remove(hold)
            removed = True
        except ValueError:
            removed = False
        except BaseException:  # a signal handler raised: no list has it now
            if hold not in holds:
                holds.append(hold)
            raise
        if self.forget is not None:
            self.forget(hold)
        return removed

    def keeps(self, hold: Hold) -> bool:
        """Return False if a hold was removed: another thread or task releases it."""
        return hold in tuple(self._now())

    def not_held(self) -> NotHeld:
        """Return the error for a release without a hold."""
        name = self.keys.name
        whose = " by this thread or task: another one owns it" if self._now() else ""
        return NotHeld(f"not locked: {name!r} is not held here{whose}", **self.about())

    def lease_for(self, unit: object) -> Hold | None:
        """Return the lease of the unit's own hold, else of the newest."""
        return self.of(unit) or self.newest()

    def show(self, handle: object) -> str:
        """Return a handle's repr, in the form of ``threading``'s locks."""
        hold = self.newest()
        state = "locked" if hold is not None and not hold.lost else "unlocked"
        fence = getattr(hold, "fence", None)  # there is none of some kinds
        fenced = "" if fence is None else f" fence={fence}"
        kind = type(handle).__qualname__
        return (
            f"<{state} fencelock.{kind} object name={self.keys.name!r}{fenced} at {id(handle):#x}>"
        )

    def dropped(self) -> None:
        """Stop renewing holds that no code can release any more: they end by their ttl."""
        held = [hold for hold in self._now() if hold.open and not hold.lost]
        for hold in held:
            hold.drop()
            if not sys.is_finalizing():
                if hold.port is not None:  # the next waiter of this client asks the server
                    outside(partial(hold.step_down, hold.port))
                events.end_hold(hold, reason="dropped")
        if held and not sys.is_finalizing():  # else its name was logged as the process ended
            outside(self._report_drop)

    def _report_drop(self) -> None:
        text = (
            f"a handle of {self.keys.name!r} was dropped while it held the lock:"
            " the lease is not renewed any more and ends by its ttl"
        )
        log.warning(text)
        warnings.warn(text, ResourceWarning, stacklevel=5)


class ReentrantHolds(Holds):
    """The holds of a handle that a thread or task enters again and again."""

    __slots__ = ()

    counts = True

    def again(self, unit: object) -> Hold | None:
        """Return the hold that a thread or task enters once more, or None; LeaseLost if lost."""
        hold = None if self.options.owner else self.of(unit)
        if hold is not None:
            hold.check()
        return hold

    def answered(self, port: Engine, attempt: Hold, hold: Hold | None) -> None:
        """Note that only the thread or task that acquired can release, unless an owner can."""
        del port, attempt
        if hold is not None:
            hold.bound = self.options.owner is None
