"""``Generic`` and ``Protocol`` of ``typing``, made in less time: each start pays for their classes.

Python's own compiles each type that is given as text, and looks through each protocol's members. No
program asks the private classes that name these as their base for either. Public classes, which
users may ask, name Python's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Generic, Protocol
else:

    class _WithTypes:
        """A class and the types that it was given, as they were written; a base, as the class."""

        def __init__(self, origin: type, types: tuple[Any, ...]) -> None:
            self.origin = origin
            self.types = types

        def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
            return (self.origin,)

    class Generic:
        """The base that a generic class names last, with its type variables."""

        def __class_getitem__(cls, types: Any) -> _WithTypes:
            return _WithTypes(cls, types if isinstance(types, tuple) else (types,))

    class Protocol:
        """The base that a protocol names."""


def types_by_variable(cls: Any) -> dict[str, Any]:
    """Return the types that a class gives its generic bases, by the names of their variables."""
    return {
        variable.__name__: given
        for base in cls.__orig_bases__
        for variable, given in zip(base.origin.__orig_bases__[-1].types, base.types, strict=True)
    }


__all__ = ["Generic", "Protocol", "types_by_variable"]
