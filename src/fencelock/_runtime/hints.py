"""Hints for users who know another library: what a name of that library is called here.

Rules of this file:

- A call that does not fit ends with a TypeError in public names: those of a private base class, or
  of the parameters of a constructor that only clients call, would help no reader.
- A hint names an option only if that call has it.
- Acquiring and releasing do not pass through any of this: it costs no time there. What ``acquire``
  does not know, it collects in ``**other``, and asks for the error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper, wraps
from types import FunctionType

from fencelock._runtime.must_await import must_await
from fencelock._runtime.typed import Any, Final, Never, TypeVar

# As in ``inspect``, which takes long to import.
_CO_COROUTINE: Final = 0x80

Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])

# By our option, which the call must have, and what to say: what other libraries call it. Of several
# hints for one name, the first that fits the call.
HINTS: Final = {
    ("ttl", "the length of a lease is ttl=, in seconds"): """
        expire expiry expires expiration ex px duration auto_release_time lock_timeout lease_time
        lease_timeout expire_time lock_ttl ttl ttl_seconds lease lease_duration
        internal_lock_timeout lock_expire
    """,
    ("blocking", "it is an option of what is acquired, as in lock(name, ttl=), in seconds"): """
        ttl expire expiry expires expiration ex px duration auto_release_time lock_timeout
        lease_time lease_timeout expire_time lock_ttl ttl_seconds lease lease_duration
        renew max_hold max_renewals on_lost label wait
    """,
    ("timeout", "how long to wait is timeout=, in seconds"): """
        timeout blocking_timeout acquire_timeout wait_timeout max_wait wait_time
        context_manager_timeout block_timeout
    """,
    ("wait", "waiters wait in line; to poll, pass wait=Poll(interval=, max_tries=)"): """
        sleep retry_delay retry_interval poll_interval retry_delay_min retry_delay_max delay
        interval retry_count retry_times retries max_retries num_retries max_attempts retry backoff
    """,
    ("renew", "a lease is renewed automatically; renew=False turns that off"): """
        auto_renewal auto_renew auto_extend renewal
    """,
    ("source", "the first argument has all of it, such as 'redis://user:pw@host:6379/0'"): """
        host port db username password url redis_url connection_pool redis client masters servers
        ssl redis_client redis_connections connection_list connection_details
    """,
    ("max_renewals", "how often a lease is renewed is max_renewals="): "num_extensions",
    ("name", "leave it out: each thread or task has a hold of its own"): "thread_local",
    ("name", "it belongs to the call that waits: acquire(blocking=False)"): """
        blocking context_manager_blocking non_blocking
    """,
    ("owner", "the id that owns the lock is owner="): "id token lock_identifier lock_id",
    ("name", "an id that owns the lock belongs to rlock(name, owner=)"): """
        id token lock_identifier lock_id
    """,
    ("key_prefix", "the prefix of all keys is key_prefix="): """
        prefix namespace lock_prefix key_namespace
    """,
    ("name", "the name of the lock is the first argument"): "key resource lock_name lock_key",
    ("name", "for shared access take a side of rwlock(name), .read or .write"): "shared exclusive",
    ("cohort", "all locks are fair; cohort=None grants strictly in order of arrival"): "fair",
    ("name", "a lock that its holder may acquire again is rlock(name)"): "reentrant",
    ("name", "leave it out: what fails raises an error of its own type"): """
        raise_on_release_error raise_on_redis_errors
    """,
    (
        "server_timeout",
        "to retry a silent server takes server_timeout=, in seconds; a lock has its own timeout=",
    ): "timeout socket_timeout socket_connect_timeout",
}
OPTIONS: Final[dict[str, list[tuple[str, str]]]] = {}
for _hint, _names in HINTS.items():
    for _name in _names.split():
        OPTIONS.setdefault(_name, []).append(_hint)

# What a name ends with whose value is milliseconds.
_MILLISECONDS: Final = ("_ms", "_msec", "_msecs", "_millis", "_milliseconds")

# By the class, how a client makes its objects.
MAKERS: Final = {
    "Lock": "lock(name)",
    "RLock": "rlock(name)",
    "Semaphore": "semaphore(name, limit)",
    "BoundedSemaphore": "bounded_semaphore(name, limit)",
    "RWLock": "rwlock(name)",
    "ReadLock": "rwlock(name).read",
    "WriteLock": "rwlock(name).write",
    "MultiLock": "multi(names)",
    "Once": "once(name, within=)",
    "Election": "election(name)",
    "Event": "event(name)",
    "Latch": "latch(name, count)",
    "Barrier": "barrier(name, parties)",
    "Outcome": "once(name, within=).run(function)",
}


def with_hints(cls: Kind) -> Kind:
    """Decorate a client: errors of calls to its methods are in public names, with hints."""
    for owner in cls.__mro__[:-1]:
        for name, function in list(vars(owner).items()):
            public = name == "__init__" or not name.startswith("_")
            if public and isinstance(function, FunctionType):
                function.__qualname__ = f"{cls.__name__}.{name}"
                if not function.__code__.co_flags & _CO_COROUTINE:  # none of these has options
                    function.__module__ = cls.__module__
                    setattr(owner, name, _hinted(function))
    return cls


def _hinted(function: FunctionType) -> Callable[..., Any]:
    """Return the function with our errors for calls that do not fit."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as error:
            wrong = _wrong(function, args, options) if _at_the_call(error) else None
            if wrong is None:
                raise
        raise TypeError(wrong)

    return call


def _at_the_call(error: TypeError) -> bool:
    """Return True if the arguments did not fit, so that the function's body never began."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None


def _wrong(function: FunctionType, args: Any, options: dict[str, Any]) -> str | None:
    """Return what is wrong with the arguments; None if Python says it well itself."""
    code, called = function.__code__, function.__qualname__.removesuffix(".__init__")
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    for name in options:
        if name not in known:
            return f"{called}() has no option {name!r}{_instead(name, options, known)}"
    if len(args) > code.co_argcount:
        named = ", ".join(f"{name}=" for name in known[code.co_argcount - 1 :])
        return f"{called}() takes its options by name, not {args[code.co_argcount]!r}: {named}"
    return None


def _instead(name: str, options: dict[str, Any], known: tuple[str, ...]) -> str:
    """Return what to write instead of an option that is not ours."""
    span = next((name.removesuffix(each) for each in _MILLISECONDS if name.endswith(each)), name)
    for ours, hint in OPTIONS.get(span, ()):
        if ours not in known:
            continue
        if name == "blocking_timeout" and "timeout" in options and "ttl" not in options:
            return f": {hint}; what is timeout= in redis-py, the length of a lease, is ttl="
        return f": {hint}"
    if span != name and span in known:
        return f"; did you mean {span}=, in seconds?"
    import difflib  # noqa: PLC0415 - only for this error

    alike = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {alike[0]}=?" if alike else f"; its options are {', '.join(known)}"


def refuse_options(handle: object, other: Mapping[str, Any], *known: str) -> Never:
    """Raise for an option that ``acquire`` does not have."""
    name, called = next(iter(other)), f"{type(handle).__name__}.acquire"
    raise TypeError(f"{called}() has no option {name!r}{_instead(name, dict(other), known)}")


def made_by_clients(function: Function) -> Function:
    """Decorate a constructor that only clients call: to all others it says how to get one."""
    takes_port = function.__code__.co_varnames[1] == "port"

    @wraps(function)
    def construct(self: object, *args: Any, **options: Any) -> None:
        port = args[0] if takes_port and args else None
        if isinstance(port, str) or hasattr(port, "lock"):  # a name or a client, as redis-py has it
            args = ()
        try:
            return function(self, *args, **options)  # type: ignore[no-any-return]  # it is None
        except TypeError as error:
            if not _at_the_call(error):
                raise
        kind = type(self).__name__
        how = MAKERS.get(kind.removeprefix("Async"), "")
        raise TypeError(f"{kind} objects are made by a client: client.{how}")

    return construct  # type: ignore[return-value]  # it takes what the constructor takes


def unnamed(cls: Kind) -> Kind:
    """Decorate a private base class: errors of its methods name the public class, or none.

    So does Python's warning about a coroutine that was never awaited.
    """
    for name, member in vars(cls).items():
        while isinstance(member, FunctionType):
            member.__qualname__ = name
            member = getattr(member, "__wrapped__", None)  # noqa: PLW2901 - what a decorator calls
    cls.__init_subclass__ = classmethod(_name_methods)  # type: ignore[assignment]  # so it is made
    return cls


def _name_methods(cls: type) -> None:
    """Give a public class the methods of its private bases, under its own name."""
    for name in dir(cls) if cls.__name__.removeprefix("Async") in MAKERS else ():
        member = getattr(cls, name, None) if name[0] != "_" else None  # some only give hints
        if isinstance(member, FunctionType) and member.__qualname__ == name:
            code, known = member.__code__, member.__globals__
            own = FunctionType(code, known, name, member.__defaults__, member.__closure__)
            update_wrapper(own, member)
            own.__kwdefaults__, own.__qualname__ = member.__kwdefaults__, f"{cls.__name__}.{name}"
            del vars(own)["__wrapped__"]  # it is the same code
            setattr(cls, name, own)
    if cls.__name__.startswith("Async") and cls.__name__.removeprefix("Async") in MAKERS:
        must_await(cls)


CONDITION: Final = (
    "there are no conditions any more; to wait for a change, use an event, a latch, or a list with"
    " BLPOP beside a lock"
)
SIDES: Final = "take one of its sides, .read or .write"
FENCE: Final = "a fence is that of the lease: `with lock as lease: lease.fence`"
RENEW: Final = "a lease is renewed automatically; to renew it now, call renew() of its lease"


def calling_level() -> int:
    """Return the stack level, for the caller's warning, of the line that called the library."""
    frame, level = sys._getframe(1), 1  # noqa: SLF001 - inspect loads for long
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("fencelock."):
        frame, level = frame.f_back, level + 1
    return level


def absent(client: object, name: str) -> Never:
    """Raise for an attribute that a client has not; of what it had once, say what to use instead.

    It is the ``__getattr__`` of clients: what is gone stands in neither ``dir()`` nor ``help()``.
    """
    text = f"{type(client).__name__!r} object has no attribute {name!r}"
    hint = f": {CONDITION}" if name == "condition" else ""
    raise AttributeError(text + hint, name=name, obj=client)


def elsewhere(owner: type, name: str) -> bool:
    """Return True if a class has only a hint under that name."""
    return isinstance(vars(owner).get(name), Elsewhere)


class Elsewhere:
    """An attribute that other libraries have: asking for it says what to use instead.

    A descriptor, as ``__getattr__`` would slow down each access to an attribute that is there.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Never:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {self._instead}"
        )
