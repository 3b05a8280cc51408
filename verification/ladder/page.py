"""Writes docs/explanation/ladder.md, in each language, from what the explorer finds.

The charts are the same in all languages. What the versions and worlds say of themselves is English:
``words.zh-CN.txt`` has it in Chinese, in pairs of lines. A number in a pair stands for any number.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from verification.ladder import ours
from verification.ladder.chart import found
from verification.ladder.rung import Break, Rung
from verification.ladder.rungs import RUNGS
from verification.simulator.shortest import faults

HERE = Path(__file__).parent
EXPLANATION = HERE.parents[1] / "docs" / "explanation"
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Say = Callable[[str], str]


class Language(NamedTuple):
    """One of the pages: where it is, its frame, and how it says an English sentence."""

    page: Path
    frame: Path
    say: Say


def sayings(text: str) -> dict[str, str]:
    """Return each sentence and what it is in the other language, without numbers."""
    pairs = (pair.split("\n") for pair in NUMBER.sub("{}", text).strip().split("\n\n"))
    return {english: other for english, other in pairs}  # noqa: C416 - a pair has two lines


def speaker(said: dict[str, str]) -> Say:
    """Return a function that looks a sentence up, and puts its numbers in."""
    return lambda text: said[NUMBER.sub("{}", text)].format(*NUMBER.findall(text))


CHINESE = sayings((HERE / "words.zh-CN.txt").read_text())
LANGUAGES = (
    Language(EXPLANATION / "ladder.md", HERE / "page.txt", str),
    Language(EXPLANATION / "ladder.zh-CN.md", HERE / "page.zh-CN.txt", speaker(CHINESE)),
)


def page(language: Language) -> str:
    """Return the whole page: its frame, with what was found in the places that it marks."""
    say = language.say
    found_out = {
        "table": "\n".join(table(say)),
        "versions": "\n".join(section(rung, say) for rung in RUNGS),
        "bounds": "\n".join(row(bound, say) for bound in ours.BOUNDS),
        "remains": "\n".join(schedule(how, say) for how in ours.REMAINS),
    }
    text = language.frame.read_text()
    for name, words in found_out.items():
        text = text.replace(f"[[{name}]]", words.rstrip("\n"))
    return text


def table(say: Say) -> Iterator[str]:
    """Yield a row for each schedule; the first of a version also says what repairs it."""
    for rung in RUNGS:
        for number, each in enumerate(rung.breaks):
            name, mend = ("", "") if number else (say(rung.name), say(rung.mend))
            yield f"| {name} | {say(each.wanted)} | {cost(each)} | {mend} |"
    schedules = sum(bound.report.schedules for bound in ours.BOUNDS)
    yield f"| **fencelock** | {say('nothing')} | {say(f'in {schedules:,} schedules')} | |"
    for each in ours.REMAINS:
        yield f"|  | {say(each.wanted)} | {cost(each)} | |"


def cost(how: Break) -> str:
    """Return how many faults and steps a schedule takes."""
    return f"{faults(list(how.path))}, {len(how.path)}"


def section(rung: Rung, say: Say) -> str:
    """Return what is told of one version."""
    charts = "\n".join(schedule(each, say) for each in rung.breaks)
    return f"## {say(rung.name)}\n\n{say(rung.idea)}\n\n{charts}"


def schedule(how: Break, say: Say) -> str:
    """Return what breaks it, and the chart."""
    what = say(how.wanted[0].upper() + how.wanted[1:] + ".")
    drawn = f"```text\n{found(how)}\n```"
    given = say(f"Given: {how.given}. Faults: {how.faults_given}.")
    return f"**{what}** {say(how.why)}\n\n{drawn}\n\n{given}\n\n{mended(how, say)}"


def mended(how: Break, say: Say) -> str:
    """Return that the version that mends it does not break so in the same world."""
    other = how.with_mended()
    if other is None:
        return ""
    search = other.search
    assert search.complete
    assert not search.found
    told = f"Repaired, it holds in all {search.schedules:,} schedules of this world."
    if other.faults_given != how.faults_given:
        told = f"{told[:-1]}; faults there: {other.faults_given}."
    return f"{say(told)}\n"


def row(bound: ours.Bound, say: Say) -> str:
    """Return what is told of one world that was explored to its end."""
    report = bound.report
    title = say(bound.scenario.title)
    return f"| {title} | {bound.faults_max} | {report.schedules:,} | {report.steps:,} |"
