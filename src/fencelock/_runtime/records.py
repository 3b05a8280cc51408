"""``typing.NamedTuple``, made in less time: a command of the shell makes thirty when it starts.

Python's own compiles the text of each annotation and of each constructor, and makes the same
methods for each class, in each start. Here annotations stay text, which is all that
``typing.get_type_hints`` needs. Constructors are copies of one for each number of fields. The
methods are inherited. All else is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import NamedTuple, Self
else:
    from collections import _tuplegetter
    from types import FunctionType

    _constructors: dict[int, CodeType] = {}  # by the number of fields

    def _constructor(owner: str, fields: tuple[str, ...]) -> Callable[..., Any]:
        """Return ``__new__`` with these fields as its parameters."""
        if len(fields) not in _constructors:
            names = "".join(f"_{place}, " for place in range(len(fields)))
            made = eval(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))")  # noqa: S307 - as Python does
            _constructors[len(fields)] = made.__code__
        code = _constructors[len(fields)].replace(
            co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{owner}.__new__"
        )
        return FunctionType(code, {"_tuple_new": tuple.__new__, "__builtins__": {}})

    class _Record(tuple):
        """The methods of all records; see ``collections.namedtuple``."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes: Any) -> Self:
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            pairs = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(pairs)})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _Maker(type):
        """Makes a tuple of named fields out of each class that names ``NamedTuple`` as its base."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace["__annotations__"])
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            create = _constructor(namespace["__qualname__"], fields)
            create.__defaults__ = tuple(defaults.values())
            getters = {
                field: _tuplegetter(place, f"Alias for field number {place}")
                for place, field in enumerate(fields)
            }
            own = {"__slots__": (), "_fields": fields, "__match_args__": fields, "__new__": create}
            own |= {"_field_defaults": defaults, "__doc__": f"{name}({', '.join(fields)})"}
            return type(name, (_Record,), own | getters | namespace)

    class NamedTuple(metaclass=_Maker):
        """The base that a record names."""


__all__ = ["NamedTuple"]
