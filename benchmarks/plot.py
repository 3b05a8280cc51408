"""Draws rate and fairness over the number of waiters, and what grows with what, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from contestants import OURS, STRICT, TOKENS

Point = Mapping[str, float]
Lines = Mapping[str, Mapping[int, Point]]

WIDTH, HEIGHT = 920, 420
PANEL_WIDTH, PANEL_HEIGHT = 360, 300
TOP = 60
LEFTS = (70, 500)
COLOURS = (
    "#7a7a7a",
    "#2f7fb8",
    "#2a9d6f",
    "#b8632f",
    "#8e5bb5",
    "#b83a6b",
    "#6b8e23",
    "#b8962f",
    "#3a3ab8",
)
FLOOR_COLOUR = "#000000"
OURS_COLOURS = {
    OURS: "#d62728",
    f"{OURS} (threads)": "#ff9896",
    STRICT: "#e88a00",
    f"{STRICT} (threads)": "#f5c26b",
}
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 }
  .title { font-weight: 600; font-size: 14px }
  .grid { stroke: #ddd; stroke-width: 1 }
  .line { fill: none; stroke-width: 1.5 }
  .ours { stroke-width: 3 }
  .floor { stroke-dasharray: 5 4 }
  .back { fill: #fff }
"""


class Panel(NamedTuple):
    """One diagram: what it shows, where, and its ticks; both axes are logarithmic."""

    title: str
    left: int
    ticks: Sequence[float]
    value: Callable[[Point], float]

    def x(self, waiters: int, sizes: Sequence[int]) -> float:
        first, last = math.log(sizes[0]), math.log(sizes[-1])
        return self.left + PANEL_WIDTH * (math.log(waiters) - first) / (last - first)

    def y(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        part = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return TOP + PANEL_HEIGHT * (1 - part)


PANELS = (
    Panel(
        "acquisitions per second",
        LEFTS[0],
        [10**n for n in range(1, 7)],
        lambda point: point["rate"],
    ),
    Panel(
        "most turns / fewest turns; at the top: somebody had none",
        LEFTS[1],
        [1, 10, 100, 1_000],
        lambda point: point["fairness"],
    ),
)
GROWTH = (
    Panel(
        "processor time, client and server, in times of that with the fewest",
        LEFTS[0],
        [0.5, 0.7, 1, 1.4, 2],
        lambda point: point["times"],
    ),
)


def draw(file: Path, title: str, panels: Sequence[Panel], lines: Lines, told: str) -> None:
    """Write a picture; ``told`` says on what it was measured."""
    sizes = sorted({size for points in lines.values() for size in points})
    size = f'viewBox="0 0 {WIDTH} {HEIGHT + 75}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        text(LEFTS[0], 22, title, "title"),
    ]
    for panel in panels:
        parts += axes(panel, sizes)
        parts += curves(panel, lines, sizes)
    parts += legend(lines)
    parts += [text(LEFTS[0], HEIGHT + 62, told), "</svg>", ""]
    file.write_text("\n".join(parts))


def axes(panel: Panel, sizes: Sequence[int]) -> Iterator[str]:
    yield text(panel.left, TOP - 14, panel.title)
    for tick in panel.ticks:
        y = panel.y(tick)
        right = panel.left + PANEL_WIDTH
        yield f'<path class="grid" d="M{panel.left} {y:.1f}H{right}"/>'
        yield text(panel.left - 8, y + 4, f"{tick:,}", anchor="end")
    for size in sizes:
        x = panel.x(size, sizes)
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{TOP + PANEL_HEIGHT}"/>'
        yield text(x, TOP + PANEL_HEIGHT + 18, f"{size:,}", anchor="middle")


def curves(panel: Panel, lines: Lines, sizes: Sequence[int]) -> Iterator[str]:
    for label in in_order(lines):
        points = sorted(lines[label].items())
        places = [(panel.x(n, sizes), panel.y(panel.value(one))) for n, one in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        colour = colour_of(label, lines)
        yield f'<path class="line {kind(label)}" stroke="{colour}" d="M{path}"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'


def legend(lines: Lines) -> Iterator[str]:
    for number, label in enumerate(reversed(in_order(lines))):
        x, y = LEFTS[0] + 210 * (number % 4), HEIGHT - 12 + 18 * (number // 4)
        colour = colour_of(label, lines)
        yield f'<path class="line {kind(label)}" stroke="{colour}" d="M{x} {y - 4}h20"/>'
        yield text(x + 26, y, label)


def in_order(lines: Lines) -> list[str]:
    """Return the labels, ours last: it is drawn over the others."""
    return sorted(lines, key=lambda label: (label.startswith(OURS), label == TOKENS))


def kind(label: str) -> str:
    return "ours" if label.startswith(OURS) else "floor" if label == TOKENS else ""


def colour_of(label: str, lines: Lines) -> str:
    if label in OURS_COLOURS:
        return OURS_COLOURS[label]
    if label == TOKENS:
        return FLOOR_COLOUR
    others = sorted(each for each in lines if not kind(each))
    return COLOURS[others.index(label) % len(COLOURS)]


def text(x: float, y: float, words: str, name: str = "", *, anchor: str = "start") -> str:
    given = f' class="{name}"' if name else ""
    return f'<text{given} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
