"""Which process this is: a fork makes a new generation, whose leases are its own."""

from __future__ import annotations

import os
import threading
from typing import Never, SupportsIndex

from fencelock._handles.hints import elsewhere

# How often this process line has forked; a lease of another generation is the parent's.
generation: int = 0


def _forked() -> None:
    global generation  # noqa: PLW0603 - one number per process
    generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Here(threading.local):
    """What stands for a thread; made when a thread first asks."""

    def __init__(self) -> None:
        self.unit: object = object()


here = _Here()  # ``here.unit``: what ``thread_unit`` returns, without a call


def thread_unit() -> object:
    """Return what stands for this thread: no later thread gets the same, unlike its ident."""
    return here.unit


class ProcessBound:
    """What a client made, and what it holds: of this process, and there is one of it.

    A copy would share the holds, and stop their renewal when it is dropped.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """Name what is there, and not what only says where else it is."""
        classes = type(self).__mro__
        hints = {name for each in classes for name in vars(each) if elsewhere(each, name)}
        return sorted({*super().__dir__()} - hints)

    def __reduce_ex__(self, _protocol: SupportsIndex) -> Never:
        """Refuse to be copied or pickled, as the locks of ``threading`` do."""
        raise TypeError(
            f"cannot copy or pickle {type(self).__name__!r} objects: their locks belong to this"
            " process. In another process, make a client and ask it for the same name; to pass"
            " on a lease, pass its fence"
        )
