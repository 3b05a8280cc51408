"""Which process this is: a fork makes a new generation, whose leases are its own."""

from __future__ import annotations

import os

# How often this process line has forked; a lease of another generation is the parent's.
generation = 0


def _forked() -> None:
    global generation  # noqa: PLW0603 - one number per process
    generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
