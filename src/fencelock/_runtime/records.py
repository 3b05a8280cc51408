"""``typing.NamedTuple``, made in less time: a command of the shell makes twenty when it starts.

Python's own compiles the text of each annotation, in each start. Here it stays text, which is all
that ``typing.get_type_hints`` needs. All else is the same: ``collections.namedtuple`` makes the
class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeVar

Record = TypeVar("Record", bound=tuple[Any, ...])

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        """Makes a tuple of named fields out of each class that names ``NamedTuple`` as its base."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = namespace.pop("__annotations__")
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])  # noqa: PYI024 - see above
            for key, member in namespace.items():
                setattr(made, key, member)
            made.__annotations__ = fields
            return made

    class NamedTuple(metaclass=_Maker):
        """The base that a record names."""


# As to call the record's class, in half of the time.
record: Callable[[type[Record], Iterable[Any]], Record] = tuple.__new__


__all__ = ["NamedTuple", "record"]
