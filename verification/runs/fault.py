"""One thing that can befall a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Something that befalls a run. ``covered``: the guarantees hold all the same.

    ``shows``: not covered, and seldom without overlaps: a run that shows none has a blind detector.
    """

    name: str
    strike: Callable[[], None]
    often: int = 1
    covered: bool = True
    shows: bool = True
    why_not: str = ""  # why it cannot be had here
