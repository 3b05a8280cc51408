"""The descriptors of this process's connections: when they are closed, and when they are not.

A server considers a waiter alive while any process has its connection open. A forked child has a
copy of each connection: it would hide its parent's death, and the lock would be granted to a waiter
that is gone.

Rules of this file:

- In the child, each descriptor is replaced by one of another file, which closes the copy. The
  number stays taken: an object that still refers to it cannot close a file that the child opens
  later.
- Nothing is sent and no poller is touched: both belong to the parent.
- A descriptor that something else has closed, as daemons close all, is not closed again: its number
  may be another file's by now.
"""

from __future__ import annotations

import os
import socket
from weakref import WeakKeyDictionary

from fencelock._runtime.process import in_copies
from fencelock._runtime.typed import Any, TypeVar

T = TypeVar("T")

# Each with its file: a number that no other open one has.
_ours: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def own(owner: T) -> T:
    """Have the descriptor of an object closed in every child process, as long as that exists.

    It has the ``fileno`` of a socket: -1 once that is closed.
    """
    _ours[owner] = _file_of(owner)
    return owner


def _file_of(owner: Any) -> int:
    try:
        return os.fstat(owner.fileno()).st_ino
    except OSError:
        return -1


def is_lost(owner: Any) -> bool:
    """Return True if something else has closed the descriptor of an object that is open."""
    return owner in _ours and _ours[owner] != _file_of(owner)


def close(owner: socket.socket) -> None:
    """Close a socket, unless something else has."""
    if is_lost(owner):
        owner.detach()
    owner.close()


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
