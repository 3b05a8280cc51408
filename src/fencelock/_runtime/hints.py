"""Hints for users who know another library: what a name of that library is called here.

Rules of this file:

- A call that does not fit ends with a TypeError in public names: those of a private base class, or
  of the parameters of a constructor that only clients call, would help no reader.
- A hint names an option only if that call has it.
- Acquiring and releasing do not pass through any of this: it costs no time there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, Final, Never, TypeVar

# As in ``inspect``, which takes long to import.
_CO_COROUTINE: Final = 0x80
_NOTHING: Final = (lambda: None).__code__

Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])

_TTL: Final = ("ttl", "the length of a lease is ttl=")
_TIMEOUT: Final = ("timeout", "how long to wait is timeout=")
_TRIES: Final = ("wait", "waiters wait in line; to poll, pass wait=Poll(interval=, max_tries=)")
_RENEW: Final = ("renew", "a lease is renewed automatically; renew=False turns that off")
_PATIENCE: Final = (
    "server_timeout",
    "how long to retry a silent server is server_timeout=; a lock has a timeout= of its own",
)
_URL: Final = ("source", "the first argument has all of it, such as 'redis://user:pw@host:6379/0'")
_THREADS: Final = ("name", "leave it out: each thread or task has a hold of its own")

_ID: Final = ("owner", "the id that owns the lock is owner=")
_ID_ELSEWHERE: Final = ("name", "an id that owns the lock belongs to rlock(name, owner=)")
_PREFIX: Final = ("key_prefix", "the prefix of all keys is key_prefix=")
_NAME: Final = ("name", "the name of the lock is the first argument")
_SHARED: Final = ("name", "for shared access take a side of rwlock(name), .read or .write")
_BLOCKING: Final = ("name", "it belongs to the call that waits: acquire(blocking=False)")
_FAIR: Final = ("cohort", "all locks are fair; cohort=None grants strictly in order of arrival")
_REENTRANT: Final = ("name", "a lock that its holder may acquire again is rlock(name)")
_ERRORS: Final = ("name", "leave it out: what fails raises an error of its own type")

# By the options that were written: ours, which the call must have, and what to say. Of several
# that stand under one name, the first that fits the call.
OPTIONS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    **dict.fromkeys(("expire", "expiry", "expires", "expiration", "ex", "px", "duration"), (_TTL,)),
    **dict.fromkeys(("auto_release_time", "lock_timeout", "lease_time", "lease_timeout"), (_TTL,)),
    **dict.fromkeys(("expire_time", "lock_ttl", "ttl_ms", "ttl_seconds", "lease"), (_TTL,)),
    **dict.fromkeys(("lease_duration", "internal_lock_timeout", "lock_expire"), (_TTL,)),
    **dict.fromkeys(
        ("blocking_timeout", "acquire_timeout", "wait_timeout", "max_wait"), (_TIMEOUT,)
    ),
    **dict.fromkeys(("wait_time", "context_manager_timeout", "block_timeout"), (_TIMEOUT,)),
    **dict.fromkeys(("sleep", "retry_delay", "retry_interval", "poll_interval"), (_TRIES,)),
    **dict.fromkeys(("retry_delay_min", "retry_delay_max", "delay", "interval"), (_TRIES,)),
    **dict.fromkeys(("retry_count", "retry_times", "retries", "max_retries"), (_TRIES,)),
    **dict.fromkeys(("num_retries", "max_attempts", "retry", "backoff"), (_TRIES,)),
    **dict.fromkeys(("auto_renewal", "auto_renew", "auto_extend", "renewal"), (_RENEW,)),
    **dict.fromkeys(("host", "port", "db", "username", "password", "url", "redis_url"), (_URL,)),
    **dict.fromkeys(("connection_pool", "redis", "client", "masters", "servers", "ssl"), (_URL,)),
    **dict.fromkeys(("redis_client", "redis_connections", "connection_list"), (_URL,)),
    "connection_details": (_URL,),
    "num_extensions": (("max_renewals", "how often a lease is renewed is max_renewals="),),
    "thread_local": (_THREADS,),
    **dict.fromkeys(("blocking", "context_manager_blocking", "non_blocking"), (_BLOCKING,)),
    **dict.fromkeys(("id", "token", "lock_identifier", "lock_id"), (_ID, _ID_ELSEWHERE)),
    **dict.fromkeys(("prefix", "namespace", "lock_prefix", "key_namespace"), (_PREFIX,)),
    **dict.fromkeys(("key", "resource", "lock_name", "lock_key"), (_NAME,)),
    **dict.fromkeys(("shared", "exclusive"), (_SHARED,)),
    "fair": (_FAIR,),
    "reentrant": (_REENTRANT,),
    **dict.fromkeys(("raise_on_release_error", "raise_on_redis_errors"), (_ERRORS,)),
    **dict.fromkeys(("timeout", "socket_timeout", "socket_connect_timeout"), (_PATIENCE,)),
}

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


def published(defaults: Mapping[str, object]) -> Callable[[Kind], Kind]:
    """Return a decorator of clients: errors of calls to their methods are in public names.

    They come with hints. ``defaults`` are those of the options that factories take as
    ``**given: Unpack[...]``: a signature shows each of them by name.
    """

    def decorate(cls: Kind) -> Kind:
        copy = _Copies(cls, defaults)
        owners = cls.__mro__[-2::-1]
        members = {name: each for owner in owners for name, each in vars(owner).items()}
        for name, function in members.items():
            if isinstance(function, FunctionType) and _public(name):
                own = function if name in vars(cls) else copy.of(function)
                own.__qualname__ = f"{cls.__name__}.{name}"
                if not own.__code__.co_flags & _CO_COROUTINE:  # none of these has options
                    setattr(cls, name, _hinted(own, copy.spelled_out(function, own)))
        return cls

    return decorate


class Deferred:
    """A class of a client's face, imported when the client first makes one of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        """Return the class."""
        return _exported(self._name)


def _exported(name: str) -> Any:
    """Return what the package exports under a name: it imports that when it is first used."""
    return getattr(sys.modules["fencelock"], name)


class _Names(dict[str, Any]):
    """The global names of a client's copies; a public class is imported when it is looked up.

    So ``typing.get_type_hints`` finds the classes that a client returns and has not made yet.
    """

    def __missing__(self, name: str) -> Any:
        try:
            return _exported(name)
        except AttributeError:
            raise KeyError(name) from None


class _Copies:
    """Copies of the functions that both clients inherit; a client's copies name its own classes.

    A copy's globals have the names of the client's module, too: ``typing.get_type_hints`` looks
    them up there.
    """

    def __init__(self, cls: Any, defaults: Mapping[str, object]) -> None:
        self._cls = cls
        self._defaults = defaults
        self._globals: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, str] = {}
        # What the client gives its generic bases, as text, by the name of the type variable.
        self._spelled: dict[str, str] = {
            variable.__name__: getattr(given, "__forward_arg__", None) or given.__name__
            for base in cls.__orig_bases__
            for variable, given in zip(base.__origin__.__parameters__, base.__args__, strict=True)
        }

    def of(self, function: FunctionType) -> FunctionType:
        """Return a copy of a base's function, with the types of the client in its signature."""
        own = FunctionType(
            function.__code__, self._names(function), function.__name__, function.__defaults__
        )
        own.__kwdefaults__, own.__doc__ = function.__kwdefaults__, function.__doc__
        own.__module__ = self._cls.__module__
        own.__qualname__ = f"{self._cls.__name__}.{function.__name__}"
        own.__annotations__ = {
            name: self._in_own_types(text) for name, text in function.__annotations__.items()
        }
        return own

    def spelled_out(self, function: FunctionType, own: FunctionType) -> FunctionType:
        """Return what stands for ``own`` in signatures: with all types, and options by their names.

        That is never called: its code has parameters and nothing else.
        """
        given_as: str = function.__annotations__.get("given", "")  # Unpack[LockOptions[OnLost]]
        if not given_as.startswith("Unpack["):
            return self.of(function) if own is function else own
        _, kind, on_lost = given_as.rstrip("]").split("[")
        declared = _declared(function.__globals__[kind])
        options = [name for name in self._defaults if name in declared]
        code = own.__code__
        fixed = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        shown = FunctionType(
            _NOTHING.replace(
                co_name=code.co_name,
                co_qualname=code.co_qualname,
                co_filename=code.co_filename,
                co_firstlineno=code.co_firstlineno,
                co_argcount=code.co_argcount,
                co_kwonlyargcount=code.co_kwonlyargcount + len(options),
                co_varnames=(*fixed, *options),
                co_nlocals=len(fixed) + len(options),
            ),
            self._names(function),
            own.__name__,
            own.__defaults__,
        )
        given = {name: self._defaults[name] for name in options}
        shown.__kwdefaults__ = {**(own.__kwdefaults__ or {}), **given}
        types = {name: declared[name] for name in options}
        types["on_lost"] = types["on_lost"].replace("OnLost", on_lost)
        shown.__annotations__ = {
            **{name: text for name, text in own.__annotations__.items() if name != "given"},
            **{name: self._in_own_types(text) for name, text in types.items()},
        }
        shown.__qualname__, shown.__module__ = own.__qualname__, own.__module__
        shown.__doc__ = own.__doc__
        return shown

    def _in_own_types(self, text: str) -> str:
        if text not in self._texts:  # most texts come again, and each clients' start pays for this
            self._texts[text] = re.sub(
                r"\b[A-Za-z]\w*\b", lambda found: self._spelled.get(found[0], found[0]), text
            )
        return self._texts[text]

    def _names(self, function: FunctionType) -> dict[str, Any]:
        if function.__module__ not in self._globals:
            client = vars(sys.modules[self._cls.__module__])
            options = vars(sys.modules["fencelock.options"])
            names = {**options, **client, **function.__globals__}
            self._globals[function.__module__] = _Names(names)
        return self._globals[function.__module__]


def _declared(options: type) -> dict[str, str]:
    """Return the options that a class declares, and their types as text."""
    owners = options.__mro__[::-1]
    return {
        name: text
        for owner in owners
        for name, text in vars(owner).get("__annotations__", {}).items()
    }


def _public(name: str) -> bool:
    return name == "__init__" or not name.startswith("_")


def _hinted(function: FunctionType, shown: FunctionType) -> Callable[..., Any]:
    """Return the function with our errors for calls that do not fit what is shown of it."""
    code = shown.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(shown)
    def call(*args: Any, **options: Any) -> Any:
        if not known.issuperset(options):
            raise TypeError(_wrong(shown, args, options))
        try:
            return function(*args, **options)
        except TypeError as error:
            wrong = _wrong(shown, args, options) if _at_the_call(error) else None
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
    for ours, hint in OPTIONS.get(name, ()):
        if ours not in known:
            continue
        if name == "blocking_timeout" and "timeout" in options and "ttl" not in options:
            return f": {hint}; what is timeout= in redis-py, the length of a lease, is ttl="
        return f": {hint}"
    import difflib  # noqa: PLC0415 - only for this error

    alike = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {alike[0]}=?" if alike else f"; its options are {', '.join(known)}"


def made_by_clients(function: Function) -> Function:
    """Decorate a constructor that only clients call: to all others it says how to get one."""

    @wraps(function)
    def construct(self: object, *args: Any, **options: Any) -> None:
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
    """Decorate a private base class: its name does not stand in the errors of its methods."""
    for name, member in vars(cls).items():
        while isinstance(member, FunctionType):
            member.__qualname__ = name
            member = getattr(member, "__wrapped__", None)  # noqa: PLW2901 - what a decorator calls
    return cls


CONDITION: Final = (
    "there are no conditions any more; to wait for a change, use an event, a latch, or a list with"
    " BLPOP beside a lock"
)
SIDES: Final = "take one of its sides, .read or .write"
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
