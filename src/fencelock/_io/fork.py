"""After a fork the child holds nothing: leases, connections and threads are the parent's.

Rules of this file:

- The child never speaks on a connection of the parent, and never shuts one down. It closes its
  copies (descriptors.py): they would hide the parent's death from the server.
- The child's view of every lease of the parent is: lost (``lease.py`` sees to that).
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from fencelock._runtime import descriptors, mutex


class Forkable(Protocol):
    """Something that must be made new in a child process."""

    def after_fork(self) -> None:
        """Drop all that belongs to the parent; runs in the child, before any other code."""


_forkables: WeakSet[Forkable] = WeakSet()


def watch(each: Forkable) -> None:
    """Have ``after_fork`` called in every child process, as long as the object lives."""
    _forkables.add(each)


def _in_child() -> None:
    mutex.in_child()
    descriptors.in_child()
    for each in list(_forkables):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
