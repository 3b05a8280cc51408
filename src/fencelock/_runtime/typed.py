"""The words of ``typing``, also for the shell's command, which starts without that module.

``typing``, with ``re`` that it needs, is a tenth of the command's start, and nothing reads what its
words say: annotations stay text. Every other program has Python's own.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False


def in_command() -> bool:
    """Return True in ``fencelock`` and ``python -m fencelock``, from the first import on."""
    program, words = (sys.argv or [""])[0], sys.orig_argv
    if program == "-m":  # as long as the module is looked for
        return "-m" in words and words[words.index("-m") + 1] == "fencelock"
    return program.endswith("/fencelock")


if TYPE_CHECKING or "typing" in sys.modules or not in_command():
    from typing import (
        Any,
        Final,
        Generic,
        Literal,
        Never,
        NoReturn,
        ParamSpec,
        Protocol,
        Self,
        SupportsIndex,
        TypeAlias,
        TypeVar,
        TypeVarTuple,
        Unpack,
        overload,
    )
else:

    class Generic:
        """A base that takes types, and forgets them."""

        def __class_getitem__(cls, _: object) -> type:
            return cls

    class Any(Generic):
        """Stands for itself, and for what only annotations say."""

    Final = Literal = Never = NoReturn = Self = SupportsIndex = TypeAlias = Unpack = Any
    Protocol = Generic

    def TypeVar(_: str, **_options: object) -> type:  # noqa: N802 - the word that it stands for
        return Any

    ParamSpec = TypeVarTuple = TypeVar

    def overload(function: object) -> object:
        return function


if TYPE_CHECKING:
    from typing import TypedDict
else:

    class TypedDict:
        """Stands for ``typing.TypedDict``, which compiles each annotation: a millisecond per start.

        When a program runs, such options are only texts, in the overloads of decorators.
        """

        def __init_subclass__(cls, *, total: bool) -> None:
            super().__init_subclass__()


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Final",
    "Generic",
    "Literal",
    "Never",
    "NoReturn",
    "ParamSpec",
    "Protocol",
    "Self",
    "SupportsIndex",
    "TypeAlias",
    "TypeVar",
    "TypeVarTuple",
    "TypedDict",
    "Unpack",
    "overload",
]
