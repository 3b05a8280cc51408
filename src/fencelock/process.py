"""Which process this is: a fork makes a new generation, whose leases are its own."""

from __future__ import annotations

import os
from typing import Never

# How often this process line has forked; a lease of another generation is the parent's.
generation = 0


def _forked() -> None:
    global generation  # noqa: PLW0603 - one number per process
    generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class OfThisProcess:
    """What is neither pickled nor copied: a copy would be a second one who renews and releases."""

    __slots__ = ()

    def __reduce__(self) -> Never:
        """Refuse, and say what to do instead."""
        raise TypeError(
            "a client, its locks and leases stay in their process, and are not copied:"
            " make a client in each process, with the same URL"
        )
