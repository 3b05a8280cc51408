"""The descriptors of this process's connections, which a child process must not keep open.

A server considers a waiter alive while any process has its connection open. A forked child has a
copy of each connection: it would hide its parent's death, and the lock would be granted to a waiter
that is gone.

Rules of this file:

- In the child, each descriptor is replaced by one of another file, which closes the copy. The
  number stays taken: an object that still refers to it cannot close a file that the child opens
  later.
- Nothing is sent and no poller is touched: both belong to the parent.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from fencelock._runtime.process import in_copies
from fencelock._runtime.typed import Any, TypeVar

T = TypeVar("T")

_ours: WeakSet[Any] = WeakSet()


def own(owner: T) -> T:
    """Have the descriptor of an object closed in every child process, as long as that exists.

    It has the ``fileno`` of a socket: -1 once that is closed.
    """
    _ours.add(owner)
    return owner


@in_copies
def in_child() -> None:
    """Close the parent's descriptors in a child process."""
    numbers = {each.fileno() for each in list(_ours)}
    _ours.clear()
    numbers.discard(-1)
    if not numbers:
        return
    try:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # no descriptor is free: use the number of one of them
        nothing = numbers.pop()
        os.close(nothing)
        os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in numbers:
        os.dup2(nothing, number, inheritable=False)
