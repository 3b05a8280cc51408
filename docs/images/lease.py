"""Draws a lease, its handoff, its end and a late write, in each language; the story is text.

``python docs/images/lease.py`` writes the pictures beside this file. They need no server, no font
and no network, and are legible in light and dark: each has its own background.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

# The story. Each line: lane, kind, from second, to second, words. The lease is ttl=30, so it is
# renewed every 10 s; a lease that was handed over is renewed a quarter of a second later as well.
# Kinds: wait and hold are bars; stop is a bar without a process; accept and refuse are writes.
EN = """
A       | hold   |  0    | 26    | holds the lock, fence 33
B       | wait   |  6    | 26    | waits in line
B       | hold   | 26    | 36    | fence 34
B       | stop   | 36    | 68    | suspended: it cannot see the time pass
C       | wait   | 40    | 56.25 | waits in line
C       | hold   | 56.25 | 80    | holds the lock, fence 35
storage | accept | 16    | 16    | write 33
storage | accept | 31    | 31    | write 34
storage | accept | 60    | 60    | write 35
storage | refuse | 72    | 72    | write 34: refused
"""
ZH = """
A       | hold   |  0    | 26    | 持有锁，令牌 33
B       | wait   |  6    | 26    | 排队等待
B       | hold   | 26    | 36    | 令牌 34
B       | stop   | 36    | 68    | 进程被挂起，感觉不到时间流逝
C       | wait   | 40    | 56.25 | 排队等待
C       | hold   | 56.25 | 80    | 持有锁，令牌 35
storage | accept | 16    | 16    | 写入 33
storage | accept | 31    | 31    | 写入 34
storage | accept | 60    | 60    | 写入 35
storage | refuse | 72    | 72    | 写入 34，被拒绝
"""
LANES = ("A", "B", "C", "storage")
RENEWALS = (("A", 10.0), ("A", 20.0), ("B", 26.25))
# The lock goes from lane to lane at this second; the words stand on this side of the arrow.
PASSES = (("A", "B", 26.0, "handoff", "right"), ("B", "C", 56.25, "expiry", "left"))


class Language(NamedTuple):
    """What the picture says in one language, beside the story."""

    file: str
    story: str
    words: dict[str, str]


LANGUAGES = (
    Language(
        "lease.svg",
        EN,
        {
            "label": "A lease, a handoff, an expiry, and a late write that is refused by its fence",
            "title": 'Three processes and one lock: client.lock("orders:42", ttl=30)',
            "A": "process A",
            "B": "process B",
            "C": "process C",
            "storage": "your storage",
            "renew": "renew",
            "handoff": "release: the server grants the lock to the next waiter in the same step",
            "expiry": "the lease expires 30 s after its last renewal",
            "seconds": "seconds",
        },
    ),
    Language(
        "lease.zh-CN.svg",
        ZH,
        {
            "label": "租约、移交、到期，以及被围栏令牌拒绝的迟到写入",
            "title": '三个进程，一把锁：client.lock("orders:42", ttl=30)',
            "A": "进程 A",
            "B": "进程 B",
            "C": "进程 C",
            "storage": "你的存储",
            "renew": "续租",
            "handoff": "释放：服务器在同一步里把锁移交给下一个等待者",
            "expiry": "最后一次续租 30 秒后，租约到期",
            "seconds": "秒",
        },
    ),
)

WIDTH, HEIGHT = 920, 392
LEFT, RIGHT, SECONDS = 118, 896, 80
TOP, LANE, BAR = 66, 74, 30
STYLE = """
  text { font: 13px system-ui, -apple-system, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC",
    sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 12px; fill: #57606a }
  .back { fill: #ffffff }
  .grid { stroke: #d8dee4 }
  .hold { fill: #bfe5c8; stroke: #1a7f37; stroke-width: 1.5 }
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
    end: float
    words: str


def events(story: str) -> list[Event]:
    rows = [[cell.strip() for cell in line.split("|")] for line in story.strip().splitlines()]
    return [Event(lane, kind, float(a), float(b), words) for lane, kind, a, b, words in rows]


def picture(language: Language) -> str:
    words = language.words
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"',
        f'  aria-label="{escape(words["label"])}">',
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%" rx="8"/>',
        text(LEFT, 28, words["title"], "title"),
        *axis(words),
        *renewals(words),
        *(part for event in events(language.story) for part in drawn(event)),
        *passes(words),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def x_of(second: float) -> float:
    return LEFT + (RIGHT - LEFT) * second / SECONDS


def y_of(lane: str) -> int:
    return TOP + LANE * LANES.index(lane)


def axis(words: dict[str, str]) -> Iterator[str]:
    bottom = TOP + LANE * len(LANES) - 14
    for second in range(0, SECONDS + 1, 10):
        x = x_of(second)
        yield f'<path class="grid" d="M{x:.1f} {TOP - 16}V{bottom}"/>'
        yield text(x, bottom + 18, str(second), "small", anchor="middle")
    yield text(LEFT - 14, bottom + 18, words["seconds"], "small", anchor="end")
    for lane in LANES:
        yield text(LEFT - 14, y_of(lane) + 20, words[lane], anchor="end")


def drawn(event: Event) -> Iterator[str]:
    x, y = x_of(event.start), y_of(event.lane)
    if event.kind in ("accept", "refuse"):
        yield from write(event, x, y)
        return
    width = x_of(event.end) - x
    shape = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="4"'
    yield f'<rect class="{event.kind}" {shape}/>'
    yield text(x + width / 2, y + 20, event.words, anchor="middle")


def write(event: Event, x: float, y: int) -> Iterator[str]:
    sign = "✓" if event.kind == "accept" else "✗"
    yield f'<circle class="{event.kind}" cx="{x:.1f}" cy="{y + 10}" r="4"/>'
    yield text(x, y + 32, f"{sign} {event.words}", event.kind, anchor="middle")


def renewals(words: dict[str, str]) -> Iterator[str]:
    for lane, second in RENEWALS:
        x, y = x_of(second), y_of(lane) + BAR
        yield f'<path class="mark" d="M{x:.1f} {y}v7"/>'
        yield text(x, y + 19, words["renew"], "small", anchor="middle")


def passes(words: dict[str, str]) -> Iterator[str]:
    for source, target, second, name, side in PASSES:
        x, start, end = x_of(second), y_of(source) + BAR, y_of(target)
        yield f'<path class="pass" d="M{x:.1f} {start}V{end - 7}"/>'
        yield f'<path class="head" d="M{x - 5:.1f} {end - 8}h10l-5 8z"/>'
        away, anchor = (9, "start") if side == "right" else (-9, "end")
        yield text(x + away, (start + end) / 2 + 4, words[name], "small", anchor=anchor)


def text(x: float, y: float, words: str, name: str = "", *, anchor: str = "start") -> str:
    given = f' class="{name}"' if name else ""
    return f'<text{given} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def main() -> None:
    for language in LANGUAGES:
        (HERE / language.file).write_text(picture(language), encoding="utf-8")


if __name__ == "__main__":
    main()
