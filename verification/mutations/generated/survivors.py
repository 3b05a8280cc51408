"""Mutants that no test kills, and why each does no harm: survivors.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

LIST = Path(__file__).with_suffix(".toml")
SURVIVORS: list[dict[str, str]] = tomllib.loads(LIST.read_text())["survivor"]
# Changes that never alter behaviour, wherever they are: what is replaced, by what, and why.
ANYWHERE = (
    ("*, ", "/, ", "Every caller gives what follows by name, which it may still."),
    (", 1, true)", ", 0, true)", "A search from 0 begins at the first character, too."),
)


def reason(row: dict[str, str]) -> str:
    """Return why a mutant that survived does no harm; nothing when no person has said so."""
    file, before, after = row["file"], row["before"], row["after"]
    for old, new, why in ANYWHERE:
        if old in before and after == before.replace(old, new):
            return why
    same = (file, before, after)
    each = (one for one in SURVIVORS if (one["file"], one["before"], one["after"]) == same)
    return next(each, {"why": ""})["why"]
