"""Draws what happens to a lock over time; each picture is a story, which is text.

``python docs/images/draw.py`` writes the picture of every ``*.toml`` beside this file; so does
``python3 dev.py docs``. They need no server, no font and no network, and are legible in light and
dark: each has its own background.

A story has a title, a label for readers who cannot see it, the unit of the axis, its end and the
distance of its lines, and the lanes from top to bottom. Each line of its events, drawn in their
order, is ``lane | kind | from | to | words``:

- ``hold``, ``wait``, ``keep`` and ``stop`` are bars: held, waiting, kept without use, not running;
- ``accept`` and ``refuse`` are writes, and ``mark`` is a moment in a bar;
- ``pass`` is an arrow from a lane to another, ``A > B``; in place of ``to`` it has the side of the
  arrow on which its words stand.

A story with a ``phone`` is drawn a second time, for narrow screens, where it is legible without
moving it: the same events, with the shorter title, lanes and words that stand there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from copy import copy
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
WIDTH, LEFT, PHONE_WIDTH, PHONE_LEFT, MARGIN = 920, 118, 430, 68, 24
TOP, LANE, BAR, FOOT = 66, 74, 30, 30
STYLE = """
  text { font: 13px system-ui, -apple-system, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC",
    sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 12px; fill: #57606a }
  .back { fill: #ffffff }
  .grid { stroke: #d8dee4 }
  .hold { fill: #bfe5c8; stroke: #1a7f37; stroke-width: 1.5 }
  .keep { fill: #e6f5ea; stroke: #1a7f37; stroke-width: 1.5; stroke-dasharray: 2 3 }
  .wait { fill: none; stroke: #6e7781; stroke-width: 1.5; stroke-dasharray: 5 4 }
  .stop { fill: #f6f8fa; stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 2 3 }
  .mark { stroke: #1a7f37; stroke-width: 2 }
  .pass { stroke: #0969da; stroke-width: 2; fill: none }
  .head { fill: #0969da }
  .accept, text.accept { fill: #1a7f37 }
  .refuse, text.refuse { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .small { fill: #9da7b3 }
    .back { fill: #0d1117 }
    .grid { stroke: #2a313a }
    .hold { fill: #1b4427; stroke: #3fb950 }
    .keep { fill: #12261a; stroke: #3fb950 }
    .wait { stroke: #8b949e }
    .stop { fill: #161b22; stroke: #f85149 }
    .mark { stroke: #3fb950 }
    .pass { stroke: #58a6ff }
    .head { fill: #58a6ff }
    .accept, text.accept { fill: #3fb950 }
    .refuse, text.refuse { fill: #f85149 }
  }
"""


class Event(NamedTuple):
    """One line of a story."""

    lane: str
    kind: str
    start: float
    end: str
    words: str


class Story:
    """A story, and where its moments and lanes are in its picture."""

    width, left = WIDTH, LEFT

    def __init__(self, path: Path) -> None:
        given: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        self.picture = path.with_suffix(".svg")
        self.title, self.label = given["title"], given["label"]
        self.unit, self.until, self.step = given["unit"], given["until"], given["step"]
        self.lanes: dict[str, str] = given["lanes"]
        rows = (line.split("|") for line in given["events"].strip().splitlines())
        cells = ([cell.strip() for cell in row] for row in rows)
        self.events = [Event(lane, kind, float(a), b, words) for lane, kind, a, b, words in cells]
        self.phone: dict[str, Any] | None = given.get("phone")
        self.bottom = TOP + LANE * len(self.lanes) - 14

    def on_a_phone(self, said: dict[str, Any]) -> Story:
        """Return the same story in fewer words, for a narrow screen."""
        narrow = copy(self)
        narrow.picture = self.picture.with_suffix(".phone.svg")
        narrow.width, narrow.left, narrow.phone = PHONE_WIDTH, PHONE_LEFT, None
        narrow.title, narrow.step = said["title"], said["step"]
        narrow.lanes = dict(zip(self.lanes, said["lanes"], strict=True))
        words = zip(self.events, said["words"], strict=True)
        narrow.events = [event._replace(words=shorter) for event, shorter in words]
        return narrow

    def x(self, moment: float) -> float:
        """Return where a moment is."""
        return self.left + (self.width - MARGIN - self.left) * moment / self.until

    def y(self, lane: str) -> int:
        """Return where the bars of a lane begin."""
        return TOP + LANE * list(self.lanes).index(lane)


def stories() -> list[Story]:
    """Return all stories."""
    wide = [Story(path) for path in sorted(HERE.glob("*.toml"))]
    return wide + [story.on_a_phone(story.phone) for story in wide if story.phone]


def drawing(story: Story) -> str:
    """Return the picture of a story."""
    size = f'viewBox="0 0 {story.width} {story.bottom + FOOT}"'
    shapes = {"mark": mark, "accept": write, "refuse": write, "pass": arrow}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"',
        f'  aria-label="{escape(story.label)}">',
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%" rx="8"/>',
        text(story.left, 28, story.title, "title"),
        *axis(story),
        *(part for event in story.events for part in shapes.get(event.kind, bar)(story, event)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def axis(story: Story) -> Iterator[str]:
    """Yield the lines of time and the names of the lanes."""
    for moment in range(0, story.until + 1, story.step):
        x = story.x(moment)
        yield f'<path class="grid" d="M{x:.1f} {TOP - 16}V{story.bottom}"/>'
        yield text(x, story.bottom + 18, str(moment), "small", anchor="middle")
    yield text(story.left - 14, story.bottom + 18, story.unit, "small", anchor="end")
    for lane, name in story.lanes.items():
        yield text(story.left - 14, story.y(lane) + 20, name, anchor="end")


def bar(story: Story, event: Event) -> Iterator[str]:
    """Yield a time that something lasts."""
    x, y = story.x(event.start), story.y(event.lane)
    width = story.x(float(event.end)) - x
    shape = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="4"'
    yield f'<rect class="{event.kind}" {shape}/>'
    yield text(x + width / 2, y + 20, event.words, anchor="middle")


def write(story: Story, event: Event) -> Iterator[str]:
    """Yield a write that the storage accepts or refuses."""
    x, y = story.x(event.start), story.y(event.lane)
    sign = "✓" if event.kind == "accept" else "✗"
    yield f'<circle class="{event.kind}" cx="{x:.1f}" cy="{y + 10}" r="4"/>'
    yield text(x, y + 32, f"{sign} {event.words}", event.kind, anchor="middle")


def mark(story: Story, event: Event) -> Iterator[str]:
    """Yield a moment in a bar."""
    x, y = story.x(event.start), story.y(event.lane) + BAR
    yield f'<path class="mark" d="M{x:.1f} {y}v7"/>'
    yield text(x, y + 19, event.words, "small", anchor="middle")


def arrow(story: Story, event: Event) -> Iterator[str]:
    """Yield what goes from one lane to another."""
    source, target = (story.y(lane.strip()) for lane in event.lane.split(">"))
    down = target > source
    start, end = (source + BAR, target) if down else (source, target + BAR)
    x, back, words = story.x(event.start), -8 if down else 8, start + (26 if down else -18)
    yield f'<path class="pass" d="M{x:.1f} {start}V{end + back}"/>'
    yield f'<path class="head" d="M{x - 5:.1f} {end + back}h10L{x:.1f} {end}z"/>'
    away, anchor = (9, "start") if event.end == "right" else (-9, "end")
    yield text(x + away, words, event.words, "small", anchor=anchor)


def text(x: float, y: float, words: str, name: str = "", *, anchor: str = "start") -> str:
    """Return words at a place; none for none."""
    given = f' class="{name}"' if name else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{given} {where}>{escape(words)}</text>" if words else ""


def main() -> None:
    """Draw all pictures."""
    for story in stories():
        story.picture.write_text(drawing(story), encoding="utf-8")


if __name__ == "__main__":
    main()
