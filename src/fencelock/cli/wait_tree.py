"""The waits that ``graph`` and ``show`` print: a tree, and each cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock._core.look.graph import Block, Unit, cycles
from fencelock.cli.output import human, visible


def print_tree(found: Sequence[Block]) -> None:
    """Print below each thread or task those that wait for it, and then the cycles."""
    for line in tree(found):
        print(visible(line))
    for circle in cycles(found):
        steps = [f"{block.waiter} waits for {block.name}" for block in circle]
        print("\n" + visible(f"cycle: {', held by '.join([*steps, str(circle[0].waiter)])}"))


def tree(found: Sequence[Block]) -> list[str]:
    """Return the lines of a tree: below each unit, those that wait for it.

    Its roots wait for nothing; each cycle, which has no such unit, begins with one of its own.
    """
    below: dict[Unit, list[Block]] = {}
    for block in found:
        below.setdefault(block.holder, []).append(block)
    lines: list[str] = []
    shown: set[Unit] = set()
    waiting = {block.waiter for block in found}

    def grow(unit: Unit, text: str, depth: int = 0) -> None:
        """Add a line, and below it those that wait for its unit."""
        again = unit in shown
        seen = " (see above)" if again and unit in below else ""
        lines.append(f"{'  ' * depth}{text}{seen}")
        shown.add(unit)
        for block in () if again else below.get(unit, ()):
            grow(block.waiter, _waits(block), depth + 1)

    for root in [*(unit for unit in below if unit not in waiting), *below]:
        if root not in shown:
            grow(root, str(root))
    return lines


def _waits(block: Block) -> str:
    waits = f" and {block.others} more in turns wait" if block.others else " waits"
    others = "" if block.certain else ", or for another holder"
    return f"{block.waiter}{waits} for {block.name}, {human(block.waited)}{others}"


def summary(block: Block) -> dict[str, Any]:
    """Return what ``--json`` prints of a wait."""
    return {
        "name": block.name,
        "waiter": _told(block.waiter),
        "waited": round(block.waited, 3),
        "holder": _told(block.holder),
        "held_for": round(block.held_for, 3),
        "certain": block.certain,
    } | ({"others": block.others} if block.others else {})


def _told(unit: Unit) -> dict[str, Any] | None:
    if unit.foreign:
        return None
    return {"host": unit.host, "pid": unit.pid, "unit": unit.unit}
