"""The waits that ``graph`` and ``show`` print: a tree, and each cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock._core.look.graph import Block, Unit, cycles
from fencelock._runtime.records import NamedTuple
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


class Branch(NamedTuple):
    """One line of the tree: a unit, how deep it stands, and the wait that leads to it."""

    depth: int
    unit: Unit
    block: Block | None  # None: a root, which waits for nothing, or is in a cycle
    again: bool  # its waiters are listed further up


def tree(found: Sequence[Block]) -> list[Branch]:
    """Return the lines of a tree: below each unit, those that wait for it.

    Its roots wait for nothing; each cycle, which has no such unit, begins with one of its own.
    """
    below: dict[Unit, list[Block]] = {}
    for block in found:
        below.setdefault(block.holder, []).append(block)
    lines: list[Branch] = []
    shown: set[Unit] = set()
    waiting = {block.waiter for block in found}
    for root in [*(unit for unit in below if unit not in waiting), *below]:
        if root not in shown:
            _grow(Branch(0, root, None, again=False), below, lines, shown)
    return lines


def _grow(
    branch: Branch, below: dict[Unit, list[Block]], lines: list[Branch], shown: set[Unit]
) -> None:
    """Add a line, and below it those that wait for its unit."""
    again = branch.unit in shown
    lines.append(branch._replace(again=again and branch.unit in below))
    if again:
        return
    shown.add(branch.unit)
    for block in below.get(branch.unit, ()):
        _grow(Branch(branch.depth + 1, block.waiter, block, again=False), below, lines, shown)
