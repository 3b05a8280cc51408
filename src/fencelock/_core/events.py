"""What happens to locks, reported to hooks: the one place for metrics, logs, history and checks.

Rules of this file:

- Without a hook nothing is built: a flow looks at ``hooks`` first, and what it asks later, of a
  request or a hold, is None. With hooks an event is built when the first of them wants it.
- A request ends once: granted, refused, timed out, given up, failed or in a deadlock. A grant ends
  once: released or lost. What began without a hook is never reported.
- A hook is called by the thread or task that it is about, or by the one that renews; never inside
  the mutex. What it raises is logged once for each hook, and changes nothing.
- One event for a user's lease: leases of single nodes of a quorum report nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from fencelock._core.description import HeldBy, described
from fencelock._core.lock.terms import Terms
from fencelock._core.types import UnitId
from fencelock._core.wire import Wire
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.log import log
from fencelock._runtime.mutex import put_off
from fencelock._runtime.records import NamedTuple, record
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final
from fencelock.errors import Deadlock
from fencelock.lease import fence_of

if TYPE_CHECKING:
    from fencelock._core.lock.attempt import Attempt
    from fencelock._core.lock.hold import Hold


# The kinds of events. First those of a request; the last six of them end it.
REQUESTED: Final = "requested"  # a thread or task asks; it may have to wait
WAITING: Final = "waiting"  # it does have to wait
GRANTED: Final = "granted"
REFUSED: Final = "refused"  # it did not wait, or not any longer: all its tries are used up
TIMED_OUT: Final = "timed_out"
GAVE_UP: Final = "gave_up"  # it was cancelled or interrupted
FAILED: Final = "failed"  # by an error, which it raises
DEADLOCK: Final = "deadlock"  # it was chosen to end a circle of waiters
SUSPECTED: Final = "suspected_deadlock"  # the same, but others may end it; the request goes on
# Those of a lease; the last two end it.
RENEWED: Final = "renewed"
RENEWAL_FAILED: Final = "renewal_failed"  # it is retried while the lease lasts
RECALLED: Final = "recalled"  # others want a lease that this client may keep
RELEASED: Final = "released"
LOST: Final = "lost"
# What this client did as an operator; the holder, wherever it is, reports that it lost the lease.
REVOKED: Final = "revoked"

KINDS: Final = (
    *(REQUESTED, WAITING, GRANTED, REFUSED, TIMED_OUT, GAVE_UP, FAILED, DEADLOCK, SUSPECTED),
    *(RENEWED, RENEWAL_FAILED, RECALLED, RELEASED, LOST, REVOKED),
)

ENDS: Final = (GRANTED, REFUSED, TIMED_OUT, GAVE_UP, FAILED, DEADLOCK)  # those of a request

Hook = Callable[["LockEvent"], object]
# Looks at an event before it is built: whom it is about, and how long that waited or held. False
# if that was all that a hook wanted.
Look = Callable[["Subject", float], bool]
# What is called with an event, and what looks first.
Way = tuple[Hook, Look | None]


class OwnHook:
    """A hook of this package, which need not be called with every event."""

    def __call__(self, event: LockEvent, /) -> None:
        """Take note of an event."""
        raise NotImplementedError

    def __ways__(self) -> Mapping[str, Way]:
        """Return by kind what is called; again after ``sort_by_kind``."""
        raise NotImplementedError


hooks: tuple[Hook, ...] = ()  # all of them; flows look here
# The same by kind, those that want it: each as it was chosen, with its way.
_wanting: dict[str, tuple[tuple[Hook, Hook, Look | None], ...]] = dict.fromkeys(KINDS, ())
_chosen: tuple[Hook, ...] = ()  # by the user, all at once
_installed: tuple[Hook, ...] = ()  # by this package, one by one
_faulty: set[int] = set()  # those whose first error was logged
_numbers = count(1)
# They know which trace a request belongs to: asked for its description, which ``show`` prints.
tracers: tuple[Callable[[], str | None], ...] = ()


def choose(wanted: Sequence[Hook], traced: Sequence[Callable[[], str | None]] = ()) -> None:
    """Replace the hooks that the user chose, and what says which trace a request belongs to."""
    global tracers  # noqa: PLW0603 - as the hooks, it is of the process
    tracers = tuple(traced)
    _faulty.clear()
    _use(tuple(wanted), _installed)


def chosen() -> tuple[Hook, ...]:
    """Return the hooks that the user chose."""
    return _chosen


def install(hook: Hook) -> None:
    """Add a hook of this package's own, which ``choose`` leaves alone."""
    _use(_chosen, (*_installed, hook))


def uninstall(hook: Hook) -> None:
    """Remove a hook that was installed; harmless when it is not there."""
    _use(_chosen, tuple(each for each in _installed if each != hook))


def _use(wanted: tuple[Hook, ...], ours: tuple[Hook, ...]) -> None:
    global hooks, _chosen, _installed
    hooks, _chosen, _installed = (*wanted, *ours), wanted, ours
    sort_by_kind()


def sort_by_kind() -> None:
    """Note which hooks want which kinds; again once a factory has made its hook."""
    global _wanting  # noqa: PLW0603 - as the hooks
    found: tuple[Hook, ...] | None = None
    while found is not hooks:  # another thread may change them meanwhile
        found = hooks
        ways = [(hook, ways_of(hook)) for hook in found]
        _wanting = {
            kind: tuple((hook, *way[kind]) for hook, way in ways if kind in way) for kind in KINDS
        }


def ways_of(hook: Hook) -> Mapping[str, Way]:
    """Return by kind what is called for a hook: all hooks but our own want every event."""
    return hook.__ways__() if isinstance(hook, OwnHook) else dict.fromkeys(KINDS, (hook, None))


def trace() -> str:
    """Return the id of the trace that the calling thread or task is in, if one of them knows."""
    for tracer in tracers:
        try:
            found = tracer()
        except Exception as error:  # noqa: BLE001 - as a hook
            _log_once(tracer, error)
        else:
            if found:
                return found
    return ""


class Subject:
    """What an event is about: a name, its class, and who deals with it."""

    __slots__ = ("client", "info", "kind", "name", "server", "template", "unit")

    # Of an acquisition.
    number: int = 0
    group: int = 0
    waits: bool = False

    def __init__(self, port: Wire, name: str, kind: str, template: str = "") -> None:
        self.name: str = name
        self.kind: str = kind
        self.template: str = template
        self.server: str = port.label
        self.client: bytes = port.client_channel
        self.info: bytes = b""
        self.unit: UnitId = None


class Acquisition(Subject):
    """One acquisition, from its request to the end of its lease."""

    __slots__ = ("_ending", "_port", "began", "granted_at", "group", "number", "waits")

    granted_at: float

    def __init__(self, port: Wire, attempt: Attempt, *, waits: bool, group: int | None) -> None:
        terms = attempt.terms
        options = terms.options
        self.name: str = terms.keys.name
        self.kind: str = options.kind
        self.template: str = options.template
        self.server: str = port.label
        self.client: bytes = port.client_channel
        self.info: bytes = attempt.own_info
        self.unit: UnitId = attempt.unit
        self.number: int = next(_numbers)  # of this process
        # The number of the first one of a multi, which has none to give; else 0.
        self.group: int = self.number if group is None else group
        self.waits: bool = waits  # it is no single try
        self._port = port
        self.began: float = attempt.arrived_at or port.now()  # from then on its timeout counts
        self._ending: list[bool] = [True, True]  # popped when it waits, and when it ends

    def must_wait(self, held_by: Sequence[HeldBy] = (), ahead: int | None = None) -> None:
        """Report that it has to wait, once: for these holders, behind so many others."""
        if len(self._ending) == 2:  # noqa: PLR2004 - see above
            self._ending.pop()
            report(WAITING, self, self._port.now(), ahead=ahead, held_by=tuple(held_by))

    def end(
        self,
        kind: str,
        error: BaseException | None = None,
        reason: str = "",
        held_by: tuple[HeldBy, ...] = (),
    ) -> None:
        """Report that the request ended without a grant, unless it ended before.

        It waited for these: in the first answer, and in the last.
        """
        if self._ends():
            now = self._port.now()
            waited = now - self.began
            report(kind, self, now, waited=waited, error=error, reason=reason, held_by=held_by)

    def suspected(self, error: BaseException) -> None:
        """Report a deadlock that may end by itself: the request goes on."""
        now = self._port.now()
        waited = now - self.began
        report(SUSPECTED, self, now, waited=waited, reason="uncertain", error=error)

    def _ends(self) -> bool:
        ending, self._ending = self._ending, []
        return bool(ending)

    def granted(self, hold: Hold) -> None:
        """Report the grant; from now on the end of the hold is reported, too."""
        if not self._ends():
            return
        self.granted_at = now = self._port.now()
        fence, held_by = fence_of(hold), hold.held_by
        try:
            report(GRANTED, self, now, fence=fence, waited=now - self.began, held_by=held_by)
        finally:
            hold.reported = [self]
        if hold.loss is not None:  # just before: it was not reported then
            end_hold(hold)


class LockEvent(NamedTuple):
    """One event of a lock or another object.

    ``kind`` says what happened, ``name`` to which lock. ``template`` is the class of the name, for
    labels of metrics: that of a decorator or of the option ``template``, else the ``object``: what
    the handle is, such as ``"lock"`` or ``"semaphore"``. The events of one acquisition share a
    ``number``; those of a multi also a ``group``. Spans are in seconds, ``at`` is fencelock's
    monotonic clock. What is not known is None, 0 or empty.
    """

    kind: str
    subject: Subject
    at: float
    fence: int = 0
    waited: float = 0.0  # from the request to this event
    held: float = 0.0  # from the grant to this event
    took: float = 0.0  # of a renewal, from its request to its answer
    reason: str = ""  # of a loss, or of a refusal
    detail: str = ""
    error: BaseException | None = None  # that it raised, or of the last renewal
    ahead: int | None = None  # how many others the server has in line before it
    held_by: tuple[HeldBy, ...] = ()  # of a wait: who held it in the first answer, and in the last

    @property
    def name(self) -> str:
        """Return the name of the lock, without the prefix."""
        return self.subject.name

    @property
    def object(self) -> str:
        """Return what the handle is: ``lock``, ``rlock``, ``semaphore``, ``rwlock.read``, ..."""
        return self.subject.kind

    @property
    def template(self) -> str:
        """Return the class of the name; without one, what the handle is."""
        return self.subject.template or self.subject.kind

    @property
    def server(self) -> str:
        """Return the server, as a person calls it."""
        return self.subject.server

    @property
    def client(self) -> bytes:
        """Return the identity of the client in this process."""
        return self.subject.client

    @property
    def unit(self) -> UnitId:
        """Return the identity of the thread, or the task, that acquires or holds."""
        return self.subject.unit

    @property
    def number(self) -> int:
        """Return the number of the acquisition in this process; 0 when it is about none."""
        return self.subject.number

    @property
    def group(self) -> int:
        """Return what the parts of a multi have in common; 0 for all else."""
        return self.subject.group

    @property
    def waits(self) -> bool:
        """Return True if it was requested with waiting, and not by a single try."""
        return self.subject.waits

    @property
    def who(self) -> dict[str, Any]:
        """Return what ``show`` prints of the thread or task: host, pid, unit and label."""
        return described(self.subject.info)

    @property
    def behind(self) -> dict[str, Any]:
        """Return the same of whom it waits for, or waited for last, as the server said."""
        return described(self.held_by[-1].info) if self.held_by else {}

    def __repr__(self) -> str:
        """Show what is known."""
        words = [f"{self.kind} {self.object} {self.name!r}"]
        words += [
            f"{name}={value!r}"
            for name in ("fence", "waited", "held", "reason", "detail", "error", "ahead")
            if (value := getattr(self, name)) not in {0, "", None}
        ]
        return f"<LockEvent {' '.join(words)}>"


class HookRefusal(Exception):
    """What a hook raises to refuse a request: it reaches the caller, and nothing was sent.

    At other events it is logged, as all that a hook raises.
    """


def report(
    kind: str,
    subject: Subject,
    at: float,
    *,
    fence: int = 0,
    waited: float = 0.0,
    held: float = 0.0,
    took: float = 0.0,
    reason: str = "",
    detail: str = "",
    error: BaseException | None = None,
    ahead: int | None = None,
    held_by: tuple[HeldBy, ...] = (),
) -> None:
    """Call the hooks with an event; later, if this thread was interrupted inside the mutex."""
    if mutexes.owned():
        put_off(partial(report, **locals()))
        return
    event: LockEvent | None = None
    refusal: HookRefusal | None = None
    for hook, call, look in _wanting[kind]:
        try:
            if look is not None and not look(subject, waited or held):
                continue
            if event is None:
                known = kind, subject, at, fence, waited, held, took, reason, detail
                event = record(LockEvent, (*known, error, ahead, held_by))
            call(event)
        except Exception as raised:  # noqa: BLE001 - a hook of the user's may raise anything
            if isinstance(raised, HookRefusal) and kind == REQUESTED:
                refusal = raised
            else:
                _log_once(hook, raised)
    if refusal is not None:
        try:
            raise refusal
        finally:
            del refusal


def _log_once(hook: Hook | Callable[[], str | None], error: Exception) -> None:
    if id(hook) not in _faulty:
        _faulty.add(id(hook))
        text = "the hook %r raised; its further errors are not logged"
        log.error(text, hook, exc_info=error)


# -- what the flows report: a request only when there is a hook ------------------------------------


def requested(port: Wire, attempt: Attempt, *, waits: bool, group: int | None = 0) -> Acquisition:
    """Report a request, and note in it that its end is to be reported."""
    made = attempt.event = Acquisition(port, attempt, waits=waits, group=group)
    report(REQUESTED, made, made.began)
    return made


def failed(attempt: Attempt, error: BaseException) -> None:
    """Report that a request ends by an error, unless it ended before."""
    if attempt.event is not None:
        kind = DEADLOCK if isinstance(error, Deadlock) else FAILED
        kind = kind if isinstance(error, Exception) else GAVE_UP
        attempt.event.end(kind, error, held_by=attempt.held_by)


def end_hold(hold: Hold, error: BaseException | None = None, reason: str = "") -> None:
    """Report once that a lease was lost or released, if its grant was reported.

    ``error`` is that of the release; ``reason`` that of a loss which the hold does not know.
    """
    if not hold.reported:
        return
    try:
        of = hold.reported.pop()  # one instruction: only one of several threads succeeds
    except IndexError:
        return
    now = hold.clock()
    kind, why, detail = RELEASED, "", ""
    if reason or hold.loss is not None:
        kind, error = LOST, hold.last_trouble()
        why, _, detail = hold.loss or (reason, now, "")
    fence, held = fence_of(hold), now - of.granted_at
    report(kind, of, now, fence=fence, held=held, reason=why, detail=detail, error=error)


def renewed(holds: Sequence[Hold], error: Exception | None = None, *, took: float = 0.0) -> None:
    """Report that leases were renewed, or that their renewal failed."""
    kind = RENEWED if error is None else RENEWAL_FAILED
    for hold in holds:
        if hold.reported:
            now, of = hold.clock(), hold.reported[0]
            held = now - of.granted_at
            fence = fence_of(hold)
            report(kind, of, now, fence=fence, held=held, took=took, error=error)


def recalled(port: Wire, terms: Terms) -> None:
    """Report that others want a lease that this client may keep."""
    options = terms.options
    of = Subject(port, terms.keys.name, options.kind, options.template)
    report(RECALLED, of, port.now())
