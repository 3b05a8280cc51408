"""The page of generated mutants: how many are killed in each room, and what survives and why."""

from __future__ import annotations

from collections.abc import Sequence

from verification.mutations.generated.sample import HANDLES, ROOMS, room_of
from verification.mutations.generated.selection import ROOT

PAGE = ROOT / "docs" / "explanation" / "generated-mutants.md"
Row = dict[str, str]


def write(seed: int, rows: Sequence[Row]) -> None:
    """Write the page."""
    PAGE.write_text(text(seed, rows))


def text(seed: int, rows: Sequence[Row]) -> str:
    return f"{len(rows)} {seed}"
