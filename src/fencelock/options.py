"""Validated settings, each with its reason. Everything here is checked before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from functools import partial

from fencelock._runtime.dates import UTC, datetime, timedelta
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import (
    Any,
    Final,
    Generic,
    Never,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
)

Seconds = float | timedelta


class ServerClient(Protocol):
    """A blocking client of redis-py or valkey-py, also of a Cluster: it is known by its methods."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and return its answer."""

    def __enter__(self) -> Any:
        """Begin to use it."""


class AsyncServerClient(Protocol):
    """An asyncio client of redis-py or valkey-py, also of a Cluster."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Send a command and return its answer."""

    def __aenter__(self) -> Awaitable[Any]:
        """Begin to use it."""


# What a client can be made over: a URL, a client, or several of them for a quorum.
Source: TypeAlias = str | ServerClient | Sequence[str | ServerClient]
AsyncSource: TypeAlias = str | AsyncServerClient | Sequence[str | AsyncServerClient]

# Long enough that a renewal every third survives two failures of the network, short enough that a
# crashed holder does not block others for long: Redisson's watchdog uses the same.
TTL: Final = 30.0
# Below this a lease is over before a busy machine has read the answer.
TTL_MIN: Final = 0.01
# A lock for longer than ten years is a mistake in the unit.
TTL_MAX: Final = 10 * 365 * 86400.0
KEY_PREFIX: Final = "fencelock:"
# How long a call retries a silent server before it gives up: a restart takes less.
SERVER_TIMEOUT: Final = 5.0
# Docker and others kill a process 10 s after they asked it to end; half of that is the program's.
SHUTDOWN: Final = 5.0
# Nearly all waits are over by then, so that few ever look.
DEADLOCK_AFTER: Final = 1.0
# A replica nearby acknowledges within milliseconds; this outlasts a pause of its disk or a fork,
# and a lease of 30 s can spare it.
REPLICAS_TIMEOUT: Final = 1.0
# How long a silent node of a quorum may hold up the others, far below a ttl.
NODE_TIMEOUT: Final = 0.05
# A writer takes this many permits, which is all; no semaphore has more.
PERMITS_MAX: Final = 1_000_000_000
# Each turn of a cohort has a fence of its own: the scripts leave room for so many (FENCE_ROOM).
TURNS_MAX: Final = 100
NAME_BYTES_MAX: Final = 1024
TEMPLATE_CHARS_MAX: Final = 128
# What may be left of a lease that is kept while it is idle: that of a handoff, see deadlines.py.
LINGER_LEASE: Final = 2.0


class _Value:
    """An immutable value that can be compared, printed and pickled.

    Written by hand: ``dataclasses`` takes longer to import than all of this package.
    """

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"cannot change {name!r} of {self!r}")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"cannot delete {name!r} of {self!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


class Queue(_Value):
    """Wait in line: first come, first served, and a release hands the lock over. The default."""

    def __init__(self) -> None:  # it takes no options
        pass


class Cohort(_Value):
    """How long the waiters of one client may take turns before the lock goes back to the line.

    They stand in the server's line as one. A release gives the lock to the next of them without a
    command, for at most ``turns`` turns, and only if one more, as long as those before, ends within
    ``seconds`` of the server's grant. So a client elsewhere waits at most that long in addition, or
    longer if the last turn is longer than those before. Work that is longer than half of
    ``seconds`` is granted in the order of arrival, as without a cohort. 64 turns divide the price
    of a handoff by 64, and 5 ms are as long as a few handoffs of a busy machine.

    Raises:
        TypeError, ValueError: turns not from 1 to 100, or seconds not above 0.
    """

    turns: int
    seconds: float

    def __init__(self, *, turns: int = 64, seconds: Seconds = 0.005) -> None:
        most = count("turns", turns, most=TURNS_MAX)
        self.__dict__.update(turns=most, seconds=positive("seconds", seconds))


class History(_Value):
    """What a client keeps on the server for people: long waits, losses, revocations, deadlocks.

    Waits of ``threshold`` seconds or more are kept: 100 ms is what users of a program notice. Of
    all clients of a prefix together about ``length`` entries are kept, and for ``ttl`` seconds
    after the last one, a week. They are sent in the background, at most once a second.

    Raises:
        TypeError, ValueError: a negative threshold, a length below 100, or a ttl not above 0.
    """

    threshold: float
    length: int
    ttl: float

    def __init__(
        self, *, threshold: Seconds = 0.1, length: int = 10_000, ttl: Seconds = 604_800.0
    ) -> None:
        self.__dict__.update(
            threshold=0.0 if threshold == 0 else positive("threshold", threshold),
            length=count("length", length, least=100),
            ttl=positive("ttl", ttl),
        )


def history(value: Any) -> History | None:
    """Return what a client keeps for people; None: nothing."""
    if value is None or isinstance(value, bool):
        return History() if value else None
    if not isinstance(value, History):
        raise TypeError(f"history must be True, False or History(...), not {value!r}")
    return value


class _ClientDefault:
    """Stands for an option that is not given, where None means something else."""

    def __repr__(self) -> str:
        return "<the client's>"


CLIENT_DEFAULT: Any = _ClientDefault()


def cohort(value: Any) -> Cohort | None:
    """Return how long the waiters of one client may take turns; None: not at all."""
    if not (value is None or isinstance(value, Cohort)):
        raise TypeError(f"cohort must be Cohort(...) or None, not {value!r}")
    return value


class Poll(_Value):
    """Try again every ``interval`` seconds, at most ``max_tries`` times (None: without bound).

    The plain form, for servers or ACLs that allow only ``SET`` and a compare-and-delete script on
    the lock's own key. It has no order of arrival, no fencing token (``lease.fence`` is 0) and no
    handoff; prefer ``Queue``. 0.1 s between tries is redis-py's default too.

    Raises:
        TypeError, ValueError: an interval that is not above 0, or fewer tries than 1.
    """

    interval: float
    max_tries: int | None

    def __init__(self, *, interval: Seconds = 0.1, max_tries: int | None = None) -> None:
        tries = None if max_tries is None else count("max_tries", max_tries, most=math.inf)
        self.__dict__.update(interval=positive("interval", interval), max_tries=tries)


Wait = Queue | Poll

OnLost = TypeVar("OnLost")


# The options of the decorators, for their overloads. ``Client.lock`` explains them;
# ``handles.lease_options`` checks them and has their defaults.
class OnceOptions(TypedDict, Generic[OnLost], total=False):
    """The options of ``once`` that are those of a lock."""

    ttl: Seconds | None
    renew: bool
    max_hold: Seconds | None
    timeout: Seconds | None
    on_lost: OnLost | None
    label: str | None
    template: str | None


class LockedOptions(TypedDict, Generic[OnLost], total=False):
    """The options of ``locked`` that are those of a lock."""

    ttl: Seconds | datetime | None
    renew: bool
    max_hold: Seconds | None
    max_renewals: int | None
    timeout: Seconds | None
    wait: Wait
    on_lost: OnLost | None
    label: str | None
    template: str | None
    cohort: Cohort | None
    linger: Seconds | None
    deadlock_after: Seconds | None


class LeaseOptions(NamedTuple):
    """How locks are to be held and waited for: the checked options of a handle, or of its client.

    Terms are made of them, for each handle; see terms.py. ``kind`` and ``template`` are for events.
    """

    ttl: float
    renew: bool = True
    max_hold: float | None = None
    max_renewals: int | None = None
    on_lost: Any = None
    instant: datetime | None = None  # at which the lease ends: nothing prolongs it
    cohort: Cohort | None = None  # how long this client's waiters may take turns by themselves
    linger: float = 0.0  # for how long the client keeps a lease that it does not use; see tenure.py
    # A wait of so many seconds looks for a deadlock; None: it takes no part, nor does its lease.
    deadlock_after: float | None = None
    plain: bool = False  # Poll: plain commands, no line, no fence
    interval: float = 0.0  # of Poll
    max_tries: int | None = None  # of Poll
    kind: str = "lock"  # of object
    template: str = ""  # the class of the name
    timeout: float | None = None  # of ``with``
    lone_timeout: bool = False  # a timeout without a ttl: some libraries mean the ttl by it
    label: str | None = None
    strict: bool = False
    owner: bytes | None = None
    quorum: bool = False
    acknowledged: bool = False  # replicas must have a grant before it counts
    server: str = ""  # as a person calls it

    @property
    def fixed_end(self) -> bool:
        """Return True for leases until an instant."""
        return self.instant is not None

    def first_ttl(self) -> float:
        """Return the length of the first lease: ``max_hold`` bounds it too."""
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)

    def ttl_now(self) -> float:
        """Return the length of a lease that begins now; ValueError after its end."""
        if self.instant is None:
            return self.first_ttl()
        left = until(self.instant)
        if left < TTL_MIN:
            raise ValueError(f"ttl: {self.instant} has passed")
        return min(left, self.first_ttl())

    def ends(self, now: float) -> float:
        """Return the instant at which leases end, by the clock that says ``now``."""
        return math.inf if self.instant is None else now + until(self.instant)

    def unlimited(self) -> bool:
        """Return True if a lease is renewed for as long as it is held, each time for its ttl."""
        limited = self.max_hold is not None or self.max_renewals is not None
        return self.renew and not limited


# Below any timeout: one try, however long its answer takes.
NO_WAIT: Final = -1.0


class Acknowledgement(NamedTuple):
    """How many replicas must acknowledge a grant, and within how many seconds."""

    wanted: int
    timeout: float


def acknowledgement(replicas: Any, timeout: Any) -> Acknowledgement | None:
    """Return how many replicas must acknowledge a grant; None, for None and 0, when none must."""
    seconds = positive("replicas_timeout", timeout)
    wanted = 0 if replicas is None else count("replicas", replicas, least=0)
    return Acknowledgement(wanted, seconds) if wanted else None


def span(what: str, value: Any) -> float:
    """Return seconds from a number or timedelta; TypeError or ValueError names the argument."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be seconds (int, float or timedelta), not {value!r}")
    try:
        seconds = float(value)
    except OverflowError:  # beyond any bound, and for that the callers have errors
        seconds = math.inf if value > 0 else -math.inf
    if math.isnan(seconds):
        raise ValueError(f"{what} must be a number of seconds, not NaN")
    return seconds


def shown(value: Any) -> str:
    """Return a refused number as an error shows it; Python itself writes no int of 5,000 digits."""
    if isinstance(value, int) and value.bit_length() > 200:  # noqa: PLR2004 - 60 digits
        return f"a number of some {value.bit_length() * 3 // 10} digits"
    return repr(value)


_OPTIONAL: Final = frozenset({"max_hold", "deadlock_after", "log_waits_after"})


def positive(what: str, value: Any) -> float:
    """Return a span above 0."""
    seconds = span(what, value)
    if not 0 < seconds < math.inf:
        hint = ": None is no limit" if what in _OPTIONAL and seconds == math.inf else ""
        raise ValueError(f"{what} must be above 0 and finite, not {shown(value)}{hint}")
    return seconds


def linger(value: Any, ttl: float) -> float:
    """Return for how long a lease is kept: a part of the short lease that it is then."""
    seconds, most = positive("linger", value), min(ttl, LINGER_LEASE) / 4
    if seconds > most:
        raise ValueError(
            f"linger must be at most {most:g} s, a quarter of the ttl and of {LINGER_LEASE:g} s,"
            f" not {shown(value)}: others may wait so long"
        )
    return seconds


# How long a wait lasts before it is a line of the log.
LOG_WAITS_AFTER: Final = 10.0


def log_waits_after(value: Any) -> float:
    """Return how long a wait lasts before it is logged; None: it never is."""
    return math.inf if value is None else positive("log_waits_after", value)


def deadlock_after(value: Any, usual: float | None = None) -> float | None:
    """Return how long a wait lasts before it looks for a deadlock; None: it never does."""
    if value is CLIENT_DEFAULT:
        return usual
    return None if value is None else positive("deadlock_after", value)


def lease_ttl(value: Any, what: str = "ttl", least: float = TTL_MIN) -> float:
    """Return the ttl in seconds, within what a lease can be."""
    seconds = span(what, value)
    if not least <= seconds <= TTL_MAX:
        most = f"{TTL_MAX:.0f} s (ten years)"
        raise ValueError(f"{what} must be between {least:g} s and {most}, not {shown(value)}")
    return seconds


def until(value: datetime) -> float:
    """Return the span from now, by this host's clock, to an instant."""
    if value.tzinfo is None:
        raise ValueError(f"ttl given as a datetime needs a timezone: {value!r}")
    return (value - datetime.now(UTC)).total_seconds()


def lock_name(value: Any) -> str:
    """Return the name of a lock: any text of 1 to 1,024 bytes."""
    encoded = utf8("name", _str("name", value))
    if not 0 < len(encoded) <= NAME_BYTES_MAX:
        raise ValueError(f"name must have 1 to {NAME_BYTES_MAX} bytes, not {len(encoded)}")
    return value  # type: ignore[no-any-return]  # it is a str


def key_prefix(value: Any) -> str:
    """Return the prefix of all keys; it may be empty."""
    utf8("key_prefix", _str("key_prefix", value))
    return value  # type: ignore[no-any-return]  # it is a str


def count(what: str, value: Any, *, least: int = 1, most: float = PERMITS_MAX) -> int:
    """Return a whole number from 1 to a thousand million, or within other bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {value!r}")
    if value < least:
        raise ValueError(f"{what} must be at least {least}, not {shown(value)}")
    if value > most:
        raise ValueError(f"{what} must be at most {most}, not {shown(value)}")
    return value


# As in ``inspect``, which takes long to import.
_CO_VARARGS: Final = 0x04
_CO_COROUTINE: Final = 0x80


def callback(
    what: str, value: Any, *, asynchronous: bool, also: str = "", given: str = "the lease"
) -> Any:
    """Return a callable or None; a coroutine function, which a thread would never run, is neither.

    ``also`` is what else would be right, for the message; ``given`` is the one argument that it
    is called with, empty for none. A callable that cannot be called so is refused here: the loss
    of a lease would be too late to find out.
    """
    if value is None:
        return None
    if not callable(value):
        raise TypeError(f"{what} must be a callable{also} or None, not {value!r}")
    flags, fits = _called(value, 1 if given else 0)
    if not asynchronous and flags & _CO_COROUTINE:
        raise TypeError(f"{what} must not be async here: Client calls it in a thread; {value!r}")
    if not fits:
        with_what = f"one argument, {given}" if given else "no arguments"
        raise TypeError(f"{what} is called with {with_what}: {value!r} cannot be")
    return value


def _called(value: Any, given: int) -> tuple[int, bool]:
    """Return the flags of what runs, and False if the call would be a TypeError before that.

    A function, method, partial or object is called by position; ``inspect`` is slow to load.
    """
    named: set[str] = set()
    while isinstance(value, partial):
        given += len(value.args)
        named |= set(value.keywords)
        value = value.func
    if not isinstance(value, type) and not hasattr(value, "__code__"):
        value = value if hasattr(value, "__func__") else getattr(value, "__call__", None)  # noqa: B004 - the method is wanted
    given += hasattr(value, "__func__")  # the object of a method
    function = getattr(value, "__func__", value)
    code = getattr(function, "__code__", None)
    if code is None:  # it is written in C
        return 0, True
    names, last = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_argcount
    optional = {*names[last - len(function.__defaults__ or ()) : last], *named}
    missing = {*names[given:], *names[last:]} - optional - {*(function.__kwdefaults__ or ())}
    too_many = given > last and not code.co_flags & _CO_VARARGS
    return code.co_flags, not missing and not too_many


def template(value: Any) -> str:
    """Return the class of a name: text of at most 128 characters."""
    given = text("template", value)
    if len(given) > TEMPLATE_CHARS_MAX or not given.isprintable():
        most = f"printable and have at most {TEMPLATE_CHARS_MAX} characters"
        raise ValueError(f"template must be {most}, not {value!r}")
    return given


def text(what: str, value: Any) -> str:
    """Return a label or owner id: a non-empty str."""
    given = _str(what, value)
    if not given:
        raise ValueError(f"{what} must not be empty")
    return given


def utf8(what: str, given: str) -> bytes:
    """Return a text as keys and records have it; ValueError names the argument."""
    try:
        return given.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be encodable as UTF-8: {given!r}") from error


def flag(what: str, value: Any) -> bool:
    """Return True or False; whatever else was given may mean the opposite of its truth: "no"."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return value


def _str(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    return value


def _refuse_seconds(blocking: Any) -> None:
    """Raise where ``blocking`` is not a bool: ``acquire(1)`` would wait for ever, not a second."""
    if isinstance(blocking, bool):
        return
    seconds = isinstance(blocking, (int, float, timedelta))
    instead = f"to wait so long, write timeout={blocking!r}" if seconds else "how long is timeout="
    raise TypeError(f"blocking must be True or False, not {blocking!r}; {instead}")


def acquire_timeout(timeout: Any, *, blocking: bool) -> float | None:
    """Return how long acquire may wait: None for ever, ``NO_WAIT`` for one try.

    ``threading.Lock``'s rules: -1 waits for ever, any other negative number is a mistake, and so
    is a timeout without blocking.
    """
    if blocking is not True:
        _refuse_seconds(blocking)
    if blocking and (timeout is None or timeout == -1):
        return None
    seconds = span("timeout", timeout)
    if not blocking:
        if seconds != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return NO_WAIT
    if seconds == -1:  # as a timedelta
        return None
    if seconds < 0:
        raise ValueError("timeout value must be a non-negative number")
    return wait_timeout(seconds)


def semaphore_timeout(timeout: Any, *, blocking: bool) -> float | None:
    """Return how long a semaphore's acquire may wait: None for ever, ``NO_WAIT`` for one try.

    ``threading.Semaphore``'s rules: no timeout waits for ever, one of 0 or less tries once, and a
    timeout without blocking is a mistake.
    """
    _refuse_seconds(blocking)
    if not blocking:
        if timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return NO_WAIT
    return wait_timeout(timeout)


# threading.TIMEOUT_MAX on every platform that runs this; repeated to keep imports light.
TIMEOUT_MAX: Final = 9223372036.0

# A day: longer than a night without work, short enough that abandoned states are deleted.
IDLE_TTL: Final = 86400.0
# Waiters send a heartbeat every two seconds, and each one keeps the state.
IDLE_TTL_MIN: Final = 10.0


def idle_ttl(value: Any) -> float:
    """Return how long an unused state is kept."""
    return lease_ttl(value, "idle_ttl", IDLE_TTL_MIN)


def wait_timeout(timeout: Any) -> float | None:
    """Return the limit of a wait: None for ever; 0 or less is one check, as in ``threading``."""
    if timeout is None:
        return None
    seconds = span("timeout", timeout)
    if seconds > TIMEOUT_MAX:
        raise OverflowError("timeout value is too large: None waits for ever")
    return max(0.0, seconds)


# What a quorum of servers cannot support, and why.
# N servers with `limit` permits each have N * limit votes: enough for more than `limit` majorities.
NOT_OVER_QUORUM: Final = {
    "rwlock": "each server has a line of its own, so readers could keep a writer out for ever",
    "semaphore": "with 5 servers and a limit of 3, five holders could have three votes each",
    "Poll": "Poll has no line and no fence, which a quorum needs",
    "owner": "the count of an explicit owner's holds is on one server",
}
OTHERWISE: Final = "its state is on one server, and a majority cannot agree on it by votes"


def refuse_over_quorum(quorum: object, what: str) -> None:
    """Raise ValueError for ``what`` if there is a quorum."""
    if quorum:
        raise ValueError(
            f"{what} does not work over a quorum: {NOT_OVER_QUORUM.get(what, OTHERWISE)};"
            f" use lock, rlock without owner or locked there, or {what} with one server,"
            " Sentinels or a Cluster"
        )
