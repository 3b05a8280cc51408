"""A random sample of mutants over the parts of the package, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from verification.mutations.generated.mutants import Mutant, Site, sites
from verification.mutations.generated.selection import PACKAGE

INTEGRATIONS = "integrations"
# The part of a sample that each part has; what is in none of them is drawn as a handle.
# The first match counts. What is for a framework or a tool of others is tested at night only.
PARTS = {
    "scripts": (0.22, ("scripts/",)),
    "core": (0.25, ("_core/",)),
    "ports": (0.20, ("_io/", "_topology/")),
    INTEGRATIONS: (
        0.10,
        (
            *("contrib/", "compat/", "dashboard/", "fences/", "instrumentation/", "testing/"),
            *("cli/_top/", "cli/commands/top.py", "cli/commands/dashboard.py"),
        ),
    ),
    "command line": (0.08, ("cli/", "__main__.py", "embedded/")),
}
HANDLES = "handles"
LEFT_OUT = ("scripts/__init__.py",)


def part_of(file: str) -> str:
    """Return the part that a file of the package is in."""
    found = (name for name, (_, places) in PARTS.items() if file.startswith(places))
    return next(found, HANDLES)


def sample(seed: int, size: int) -> list[Mutant]:
    """Draw mutants: first a part's share, then a site, then one of its variants."""
    chance = random.Random(seed)
    places: dict[str, list[Site]] = {name: [] for name in (*PARTS, HANDLES)}
    for file in files():
        places[part_of(file)] += sites(PACKAGE, file)
    drawn = []
    for part, (share, _) in PARTS.items():
        drawn += _draw(chance, places[part], round(size * share))
    return drawn + _draw(chance, places[HANDLES], size - len(drawn))


def files() -> Iterator[str]:
    """Return the files of the package that mutants are made of."""
    for path in sorted(PACKAGE.rglob("*")):
        file = path.relative_to(PACKAGE).as_posix()
        if path.suffix in {".py", ".lua"} and not file.startswith(LEFT_OUT):
            yield file


def _draw(chance: random.Random, places: list[Site], size: int) -> list[Mutant]:
    chance.shuffle(places)
    drawn: list[Mutant] = []
    for site in places:
        if len(drawn) == size:
            break
        mutant = site.drawn(chance)
        if mutant is not None:
            drawn.append(mutant)
    return drawn
