"""Decorated functions: their options, and names that a call's arguments fill in.

``@client.locked("order:{order_id}")`` decorates with such a name.

Rules of this file:

- A template or function that cannot work is refused when the function is decorated.
- A name must be the same in every process: a value whose text contains an address, or the order of
  a set, is refused, wherever in the value that is.
- Fields are those of ``str.format``, limited to public attributes.
- Other values, another name: what ends a field is escaped in its value, so that "1:2" and "3" do
  not make the name of "1" and "2:3" in ``"order:{a}:{b}"``. Nothing is escaped in the last field.
"""

from __future__ import annotations

import inspect
import re
import string
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from functools import partial, update_wrapper
from typing import Any, Final, NamedTuple, TypeVar

from fencelock import options
from fencelock._handles.handle import lease_options
from fencelock.errors import NotAcquired
from fencelock.options import LeaseOptions, Seconds

Function = TypeVar("Function", bound=Callable[..., Any])
_FORMAT = string.Formatter()
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# Of each decorated function, for names that come again.
HANDLES_KEPT: Final = 256


def decorated_options(given: LeaseOptions, on_busy: str, name: str, **chosen: Any) -> LeaseOptions:
    """Check the options of ``locked``; its name is the template of events, if it can be one."""
    if on_busy not in {"wait", "skip", "raise"}:
        raise ValueError(f'on_busy must be "wait", "skip" or "raise", not {on_busy!r}')
    if chosen.get("template") is None and name.isprintable():
        chosen["template"] = name[: options.TEMPLATE_CHARS_MAX] or None
    made = lease_options(given, **chosen)
    if on_busy == "wait":
        return made
    if made.timeout is not None:
        if on_busy == "skip":
            return made
        raise ValueError("timeout needs on_busy='wait' or 'skip': 'raise' does not wait")
    return made._replace(timeout=options.NO_WAIT)


def nested_call_error(name: str, server: str) -> NotAcquired:
    """Return the error for a call that would wait for its own lock."""
    text = f"already locked: {name!r} is held by a call around this one"
    return NotAcquired(text, name=name, server=server)


class RunningCalls:
    """The mark of a call whose body runs; a call from within it finds the mark and keeps it.

    ``clear`` takes back only what this call's own ``put`` has put there: the call around it is
    still under way.
    """

    __slots__ = ("_calls", "_me", "_own")

    def __init__(self, calls: set[tuple[object, ...]], me: tuple[object, ...]) -> None:
        self._calls = calls
        self._me = me
        self._own = False

    @property
    def found(self) -> bool:
        """Return True while this call, or one around it, is under way."""
        return self._me in self._calls

    def put(self) -> None:
        """Note that the body runs."""
        if self._me not in self._calls:
            self._own = True
            self._calls.add(self._me)

    def clear(self) -> None:
        """Note that the body has ended."""
        if self._own:
            self._calls.discard(self._me)


class OnceSettings(NamedTuple):
    """The options of ``once`` apart from the lock's."""

    within: float
    wait: bool
    lease: str | None
    under_way: set[tuple[object, ...]]  # calls of the client's that would wait for themselves


def once_settings(
    given: LeaseOptions,
    under_way: set[tuple[object, ...]],
    *,
    within: Seconds,
    wait: bool,
    lease: str | None,
    timeout: Seconds | None = None,
    **chosen: Any,
) -> tuple[LeaseOptions, OnceSettings]:
    """Check the options of ``once``."""
    options.flag("wait of once", wait)  # a lock's own ``wait`` takes a Queue
    run_settings = OnceSettings(options.positive("within", within), wait, lease, under_way)
    if run_settings.within > options.TTL_MAX:
        raise ValueError(f"within must be at most {options.TTL_MAX:.0f} s (ten years)")
    if timeout is not None and not wait:
        raise ValueError("timeout needs wait=True: without it a call does not wait")
    made = lease_options(given, timeout=timeout, cohort=None, kind="once", **chosen)
    return made if wait else made._replace(timeout=options.NO_WAIT), run_settings


class DecoratedCall(NamedTuple):
    """One call of a decorated function: the name it locks, and what calls it with the lease."""

    name: str
    into: Callable[[object], Any]


class NameTemplate:
    """A template and the function that it was checked against."""

    def __init__(
        self, template: str, function: Callable[..., Any], *, lease: str | None, asynchronous: bool
    ) -> None:
        self.template = template
        self.function = function
        self.lease = lease
        _check_kind(function, asynchronous=asynchronous)
        self.signature: inspect.Signature = inspect.signature(function)
        self.open: inspect.Signature = self.signature  # as callers see it
        if lease is not None:
            known = self.signature.parameters
            if not isinstance(lease, str):
                raise TypeError(f"lease must be the name of a parameter, not {lease!r}")
            if lease not in known or known[lease].kind in _VARIADIC:
                raise ValueError(f"lease: {_named(function)} has no parameter {lease!r}")
            left = [one for name, one in known.items() if name != lease]
            self.open = self.signature.replace(parameters=left)
        _check(template, self.open)

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> DecoratedCall:
        """Return a call with these arguments; TypeError when they do not fit the function."""
        try:
            bound = self.open.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{_named(self.function)}() {error}") from None
        bound.apply_defaults()
        name = options.lock_name(filled(self.template, bound.arguments))
        return DecoratedCall(name, partial(self._into, bound))

    def _into(self, bound: inspect.BoundArguments, lease: object) -> Any:
        """Call the function; give it the lease if it asked for that."""
        if self.lease is not None:
            given = {**bound.arguments, self.lease: lease}
            ordered = {name: given[name] for name in self.signature.parameters if name in given}
            bound = inspect.BoundArguments(self.signature, ordered)
        return self.function(*bound.args, **bound.kwargs)

    def dress(self, wrapper: Function) -> Function:
        """Make a wrapper look like the function, with the signature that callers see."""
        update_wrapper(wrapper, self.function)
        if self.lease is not None:
            wrapper.__signature__ = self.open  # type: ignore[attr-defined]  # what inspect looks for
        return wrapper


def filled(template: str, arguments: Mapping[str, Any]) -> str:
    """Return a template with its fields filled in."""
    texts = []
    for _, field, spec, conversion in _FORMAT.parse(template):
        if field is not None:
            value, _ = _FORMAT.get_field(field, (), arguments)
            text = format(_FORMAT.convert_field(value, conversion), spec or "")
            if not is_the_same_everywhere(value, text):
                raise TypeError(
                    f"{{{field}}} is {value!r}, which prints differently in every process:"
                    " use a value that is the same in all, such as one of its attributes"
                )
            texts.append(text)
    return name_of(template, texts)


# What ends a field: a character that no escape contains.
_MARK = re.compile("[^%0-9A-F]")


def name_of(template: str, texts: Sequence[str]) -> str:
    """Return the name that a template makes of the texts of its fields."""
    first, *after = literals(template)
    escaped = [*map(_escaped, texts[:-1], after), *texts[-1:]]
    return first + "".join(text + literal for text, literal in zip(escaped, after, strict=True))


def literals(template: str) -> list[str]:
    """Return what stands before, between and after the fields of a template."""
    found = [""]
    for literal, field, _, _ in _FORMAT.parse(template):
        found[-1] += literal
        if field is not None:
            found.append("")
    return found


def ends_a_field(literal: str) -> bool:
    """Return True if the value before this text cannot run into the one after it."""
    return _MARK.search(literal) is not None


def _escaped(text: str, literal: str) -> str:
    """Return the text of a field as it stands before this literal."""
    mark = _MARK.search(literal)
    if mark is None:  # {year}{month:02}: their widths tell them apart
        return text
    as_bytes = "".join(f"%{byte:02X}" for byte in mark[0].encode())
    return text.replace("%", "%25").replace(mark[0], as_bytes)


# How Python prints what has no text of its own: "<Order object at 0x7f...>", "<memory at 0x...>".
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]")
_PLAIN = (str, bytes, bytearray, int, float, complex, type(None))
_VIEWS = (KeysView, ItemsView, ValuesView)  # printed in the order of their dict
# Of an object that prints braces, at most so many values are checked: a set in a name is not deep.
_LOOKED_AT_MAX = 200


def is_the_same_everywhere(value: Any, text: str) -> bool:
    """Return False when this text of a value differs from process to process.

    An object without a text of its own is printed with its address, and a set in an order that
    differs between processes. Sets that an object has and does not print do not count.
    """
    if isinstance(value, _PLAIN):
        return True
    if callable(value) or isinstance(value, Iterator) or _is_set(value) or _ADDRESS.search(text):
        return False
    return "{" not in text or not any(repr(each) in text for each in _sets_in(value))


def _is_set(value: Any) -> bool:
    return isinstance(value, AbstractSet) and not isinstance(value, _VIEWS)


def _sets_in(value: Any) -> Iterator[Any]:
    """Yield the sets that a value is made of."""
    left: deque[Any] = deque([value])
    seen: dict[int, Any] = {}
    while left and len(seen) < _LOOKED_AT_MAX:
        each = left.popleft()
        if id(each) in seen or isinstance(each, _PLAIN):
            continue
        seen[id(each)] = each
        if _is_set(each):
            yield each
        elif isinstance(each, Mapping):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, (list, tuple, deque, *_VIEWS)):
            left += each
        for slots in [getattr(kind, "__slots__", ()) for kind in type(each).__mro__]:
            names = (slots,) if isinstance(slots, str) else slots
            left += [getattr(each, name, None) for name in names]
        left += getattr(each, "__dict__", {}).values()


def template_of(name: Any) -> str:
    """Return the name given to ``locked``; TypeError for a bare ``@client.locked``."""
    if callable(name):
        raise TypeError('name must be str, not a function: write @client.locked("...")')
    if not isinstance(name, str):
        raise TypeError(f"name must be str, not {type(name).__name__}")
    return name


def _check(template: str, signature: inspect.Signature) -> None:
    """Check a template against the parameters that callers see."""
    try:
        parts = list(_FORMAT.parse(template))
    except ValueError as error:
        raise ValueError(f"name {template!r}: {error}") from error
    if all(field is None for _, field, _, _ in parts):
        options.lock_name(template.format())
    for _, field, spec, _ in parts:
        if field is None:
            continue
        first = field.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]
        where = f"name {template!r}: {{{field}}}"
        if not first or first.isdecimal():
            raise ValueError(f"{where} has no name: fields are filled by name, as in {{order_id}}")
        if first not in signature.parameters:
            known = ", ".join(signature.parameters) or "none"
            raise ValueError(f"{where} is not a parameter of the function; it has: {known}")
        if any(part.startswith("_") for part in field.split(".")[1:]):
            raise ValueError(f"{where} names a private attribute")
        if "{" in (spec or ""):
            raise ValueError(f"{where} has a field within its format")


def _check_kind(function: Any, *, asynchronous: bool) -> None:
    """Refuse functions that this client cannot call, or that run on after the call has returned."""
    if isinstance(function, (classmethod, staticmethod)):
        kind = type(function).__name__
        raise TypeError(f"put the decorator below @{kind}, next to the function")
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"only functions can be decorated, not {function!r}")
    bare = function
    while isinstance(bare, partial):
        bare = bare.func
    if not inspect.isroutine(bare):
        bare = type(bare).__call__  # an object that can be called
    name = _named(function)
    if inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare):
        raise TypeError(
            f"{name} is a generator: its body runs after the call has returned; take the lock in it"
        )
    if inspect.iscoroutinefunction(bare) != asynchronous:
        raise TypeError(
            f"{name} is not async: AsyncClient decorates async functions, Client the others"
            if asynchronous
            else f"{name} is async: use AsyncClient; Client decorates functions that are not async"
        )


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def refuse_coroutine(result: Any, function: Callable[..., Any]) -> Any:
    """Return a result, unless it is a coroutine: its body would run without the lock."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"{_named(function)} returned a coroutine: use AsyncClient")
    return result
