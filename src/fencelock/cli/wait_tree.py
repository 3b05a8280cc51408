"""The waits that ``graph`` and ``show`` print: a tree, and each cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock._core.look.graph import Block, Unit, cycles, tree
from fencelock.cli.output import human, visible


def print_tree(found: Sequence[Block]) -> None:
    """Print below each thread or task those that wait for it, and then the cycles."""
    for branch in tree(found):
        text = f"{'  ' * branch.depth}{branch.unit}"
        if branch.block is not None:
            others = branch.block.others
            text += f" and {others} more in turns wait" if others else " waits"
            text += f" for {branch.block.name}, {human(branch.block.waited)}"
            text += "" if branch.block.certain else ", or for another holder"
        print(visible(f"{text} (see above)" if branch.again else text))
    for circle in cycles(found):
        steps = [f"{block.waiter} waits for {block.name}" for block in circle]
        print("\n" + visible(f"cycle: {', held by '.join([*steps, str(circle[0].waiter)])}"))


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
