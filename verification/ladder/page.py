"""Writes docs/explanation/ladder.md from what the explorer finds; the same each time."""

from collections.abc import Iterator
from pathlib import Path

from verification.ladder import ours
from verification.ladder.chart import found
from verification.ladder.rung import Break, Rung
from verification.ladder.rungs import RUNGS
from verification.simulator.shortest import faults

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "ladder.md"

FRAME = Path(__file__).with_name("page.txt")


def page() -> str:
    """Return the whole page: its frame, with what was found in the places that it marks."""
    found_out = {
        "table": "\n".join(table()),
        "versions": "\n".join(map(section, RUNGS)),
        "bounds": "\n".join(map(row, ours.BOUNDS)),
        "remains": "\n".join(map(schedule, ours.REMAINS)),
    }
    text = FRAME.read_text()
    for name, words in found_out.items():
        text = text.replace(f"[[{name}]]", words.rstrip("\n"))
    return text


def table() -> Iterator[str]:
    """Yield a row for each schedule."""
    for rung in RUNGS:
        for number, each in enumerate(rung.breaks):
            name = "" if number else rung.name
            path = each.path
            yield (
                f"| {name} | {each.wanted} | {faults(list(path))} | {len(path)} |"
                f" {each.search.schedules:,} |"
            )
    schedules = sum(bound.report.schedules for bound in ours.BOUNDS)
    yield f"| **fencelock** | nothing | - | - | {schedules:,} |"
    for each in ours.REMAINS:
        path = each.path
        tried = each.search.schedules
        yield f"|  | {each.wanted} | {faults(list(path))} | {len(path)} | {tried:,} |"


def section(rung: Rung) -> str:
    """Return what is told of one version."""
    charts = "\n".join(schedule(each) for each in rung.breaks)
    return f"## {rung.name}\n\n{rung.idea}\n\n{charts}\n**The fix:** {rung.mend}\n"


def schedule(how: Break) -> str:
    """Return what breaks it, and the chart."""
    what = how.wanted[0].upper() + how.wanted[1:]
    drawn = f"```text\n{found(how)}\n```"
    return f"**{what}.** {how.why}\n\n{drawn}\n\nGiven: {how.given}\n\n{mended(how)}"


def mended(how: Break) -> str:
    """Return that the version that mends it does not break so in the same world."""
    other = how.with_mended()
    if other is None:
        return ""
    search = other.search
    assert search.complete
    assert not search.found
    return (
        f"With the fix, no schedule of the same world breaks it: all {search.schedules:,} were"
        f" tried. Faults: {other.faults_given}.\n"
    )


def row(bound: ours.Bound) -> str:
    """Return what is told of one world that was explored to its end."""
    report = bound.report
    return (
        f"| {bound.scenario.title} | {bound.faults_max} | {report.schedules:,} | {report.steps:,} |"
    )
