"""Names that a call's arguments fill in: what ``@client.locked("order:{order_id}")`` decorates.

Rules of this file:

- What can be wrong with a template or a function is said when the function is decorated.
- A name must be the same in every process: a value that prints its address is refused.
- Fields are those of ``str.format``, and no more of an object than its public attributes.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, TypeVar

from fencelock import options

Function = TypeVar("Function", bound=Callable[..., Any])
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Call:
    """One call of a decorated function: the name it locks, and its arguments."""

    __slots__ = ("_bound", "_plan", "name")

    def __init__(self, plan: Plan, bound: inspect.BoundArguments) -> None:
        self._plan = plan
        self._bound = bound
        self.name = plan.name_of(bound)

    def into(self, lease: object) -> Any:
        """Call the function; give it the lease if it asked for that."""
        plan, bound = self._plan, self._bound
        if plan.lease is None:
            return plan.function(*bound.args, **bound.kwargs)
        given = {**bound.arguments, plan.lease: lease}
        ordered = {name: given[name] for name in plan.signature.parameters if name in given}
        whole = inspect.BoundArguments(plan.signature, ordered)
        return plan.function(*whole.args, **whole.kwargs)


class Plan:
    """A template and the function that it was checked against."""

    def __init__(
        self,
        template: str,
        function: Callable[..., Any],
        *,
        lease: str | None,
        asynchronous: bool,
    ) -> None:
        self.template = template
        self.function = function
        self.lease = lease
        if not isinstance(template, str):
            raise TypeError(f"name must be str, not {type(template).__name__}")
        _check_kind(function, asynchronous=asynchronous)
        self.signature = inspect.signature(function)
        self.open = self._without_lease()
        self._format = _checked(template, self.open)

    def _without_lease(self) -> inspect.Signature:
        """Return what callers see: the parameter that is given the lease is not theirs."""
        lease, known = self.lease, self.signature.parameters
        if lease is None:
            return self.signature
        if not isinstance(lease, str):
            raise TypeError(f"lease must be the name of a parameter, not {lease!r}")
        if lease not in known or known[lease].kind in _VARIADIC:
            raise ValueError(f"lease: {_named(self.function)} has no parameter {lease!r}")
        left = [one for name, one in known.items() if name != lease]
        return self.signature.replace(parameters=left)

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Return a call with these arguments; TypeError when they do not fit the function."""
        bound = self.open.bind(*args, **kwargs)
        bound.apply_defaults()
        return Call(self, bound)

    def name_of(self, bound: inspect.BoundArguments) -> str:
        """Return the name for a call."""
        return options.lock_name(self._format.vformat(self.template, (), bound.arguments))

    def dress(self, wrapper: Function) -> Function:
        """Make a wrapper look like the function, with the signature that callers see."""
        update_wrapper(wrapper, self.function)
        if self.lease is not None:
            wrapper.__signature__ = self.open  # type: ignore[attr-defined]  # what inspect looks for
        return wrapper


class _Format(string.Formatter):
    """``str.format`` without private attributes, for values that print the same everywhere."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value, first = super().get_field(field_name, args, kwargs)
        if callable(value) or all(
            getattr(type(value), way) is getattr(object, way)
            for way in ("__str__", "__repr__", "__format__")
        ):
            raise TypeError(
                f"{{{field_name}}} is {value!r}, which prints differently in every process:"
                " name one of its attributes"
            )
        return value, first


def template_of(name: Any) -> str:
    """Return what ``locked`` was given as a name; of ``@client.locked`` that is the function."""
    if callable(name):
        raise TypeError('name must be str, not a function: write @client.locked("...")')
    if not isinstance(name, str):
        raise TypeError(f"name must be str, not {type(name).__name__}")
    return name


def _checked(template: str, signature: inspect.Signature) -> _Format:
    """Check a template against the parameters that callers see."""
    made = _Format()
    try:
        parts = list(made.parse(template))
    except ValueError as error:
        raise ValueError(f"name {template!r}: {error}") from error
    fields = [part for part in parts if part[1] is not None]
    if not fields:
        options.lock_name(template.format())
    for _, field, spec, _ in fields:
        _check_field(template, field or "", spec or "", signature)
    return made


def _check_field(template: str, field: str, spec: str, signature: inspect.Signature) -> None:
    first = field.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]
    where = f"name {template!r}: {{{field}}}"
    if not first or first.isdecimal():
        raise ValueError(f"{where} has no name: fields are filled by name, as in {{order_id}}")
    if first not in signature.parameters:
        known = ", ".join(signature.parameters) or "none"
        raise ValueError(f"{where} is no argument of the function; it has: {known}")
    if any(part.startswith("_") for part in field.split(".")[1:]):
        raise ValueError(f"{where} names a private attribute")
    if "{" in spec:
        raise ValueError(f"{where} has a field within its format")


def _check_kind(function: Any, *, asynchronous: bool) -> None:
    """Refuse what one face cannot call, or what runs on after the call has returned."""
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
