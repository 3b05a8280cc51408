"""The tables, and the page of the documentation around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from verification.peers.columns import COLUMNS, TASKS, THREADS, Column
from verification.peers.play import ROWS
from verification.peers.seen import cell, faults, learned

# What a run may show, and the field that tells it.
MARKS = {"V": "violation", "O": "orphan", "H": "hang", "W": "wrong"}
LEGEND = """\
- **V**, a violation: another process holds the lock, and the former holder's library has not
  reported the loss to it; or a release freed the lock of another process.
- **O**, an orphan: the server keeps a lock that no process owns and that keeps others out. In
  brackets: how long it would have stayed at most without a clean-up.
- **H**, a hang: a call with a timeout returned more than a second after it. A number of tries is
  not a timeout; there it means more than 8 s.
- **W**, a wrong answer: *not acquired* for a free lock, because of an error or a lost reply;
  *acquired* without holding the lock; *not your lock* for a release that did release it.
- **0**: none of these in any run. A time by itself: how long the next process waited for the lock
  (median). *never*: not within 8 s.
- An error's name: the call raised it. That is an honest answer, and does not count as a fault.
  *The child hangs*: it was still busy with the release after 3 s.
- **n/a**: the fault cannot be played; the notes say why."""


def tables(columns: dict[str, Any]) -> str:
    parts = []
    for face in (THREADS, TASKS):
        shown = [each for each in COLUMNS if each.face == face and each.name in columns]
        if shown:
            parts += [
                f"### {face.capitalize()}",
                _table(columns, shown, cell) + _sums(columns, shown),
            ]
            parts += [f"How a holder that lost the lock learns of it, {face}:"]
            parts += [_table(columns, shown, learned, needed=True)]
    return "\n\n".join(part for part in parts if part)


def summary(columns: dict[str, Any]) -> str:
    """Return a row for each library: in how many faults anything was wrong, and what."""
    lines = ["| library | threads | asyncio | seen |", "| --- | --- | --- | --- |"]
    for library in dict.fromkeys(each.library for each in COLUMNS if each.name in columns):
        own = {each.face: columns.get(each.name) for each in COLUMNS if each.library == library}
        wrong = [_wrong(own[face]) if own.get(face) else "" for face in (THREADS, TASKS)]
        played = [run for cells in own.values() if cells for run in _runs_of(cells)]
        marks = [mark for mark, key in MARKS.items() if any(run[key] for run in played)]
        lines.append(f"| {library} | {' | '.join(wrong)} | {', '.join(marks)} |")
    return "\n".join(lines)


def _table(
    columns: dict[str, Any],
    shown: list[Column],
    text: Callable[[dict[str, Any]], str],
    *,
    needed: bool = False,
) -> str:
    """One table; ``needed`` leaves out rows that say nothing about anybody."""
    lines = ["| fault | " + " | ".join(each.library for each in shown) + " |"]
    lines += ["| --- |" + " --- |" * len(shown)]
    for fault in ROWS:
        cells = [_cell(columns[each.name], fault.key, text) for each in shown]
        if any(cells) and (not needed or set(cells) - {"", "n/a", "cannot run", "failed"}):
            lines.append(f"| {fault.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _cell(cells: dict[str, Any], key: str, text: Callable[[dict[str, Any]], str]) -> str:
    if "absent" in cells:
        return "cannot run"
    told = cells.get(key)
    if told is None:
        return ""
    if "failed" in told:
        return "failed"
    return "n/a" if "absent" in told else text(told)


def _sums(columns: dict[str, Any], shown: list[Column]) -> str:
    """The last row: in how many of the faults that could be played anything was wrong."""
    sums = [_wrong(columns[each.name]) for each in shown]
    return f"\n| **rows with a V, O, H or W** | {' | '.join(sums)} |"


def _wrong(cells: dict[str, Any]) -> str:
    """Return in how many of the faults that could be played anything was wrong."""
    played = [told for told in cells.values() if isinstance(told, dict) and "runs" in told]
    return f"{sum(faults(told) > 0 for told in played)} of {len(played)}"


def _runs_of(cells: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for told in cells.values():
        if isinstance(told, dict):
            yield from told.get("runs", [])


def notes(columns: dict[str, Any]) -> Iterable[str]:
    """Tell how each was used, and then why what is missing is missing, each reason once."""
    missing: dict[str, dict[str, None]] = {}
    titles = {fault.key: fault.title for fault in ROWS}
    for each in COLUMNS:
        cells = columns.get(each.name)
        if cells is None:
            continue
        yield f"- **{each.name}**: {each.use}."
        if "absent" in cells:
            yield f"  Cannot run here: {cells['absent']}."
            continue
        for key, told in cells.items():
            if key in titles and (why := told.get("absent") or told.get("failed")):
                missing.setdefault(f"{each.library}: {why}", {})[titles[key]] = None
    yield "\nWhat could not be played:\n"
    by_reason: dict[tuple[str, str], list[str]] = {}
    for said, faulty in missing.items():
        library, why = said.split(": ", 1)
        by_reason.setdefault((why, "; ".join(faulty)), []).append(library)
    for (why, faulty), libraries in by_reason.items():
        yield f"- *{faulty}*: {why} ({', '.join(libraries)})."


def page(kept: dict[str, Any]) -> str:
    about, columns = kept["about"], kept["columns"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return PAGE.format(
        legend=LEGEND,
        runs=" to ".join(map(str, sorted(_runs(columns)))),
        server=about["server"],
        python=about["python"],
        versions=versions,
        summary=summary(columns),
        tables=tables(columns),
        notes="\n".join(notes(columns)),
    )


def _runs(columns: dict[str, Any]) -> set[int]:
    cells = [told for cells in columns.values() for told in cells.values()]
    counts = {len(told["runs"]) for told in cells if "runs" in told}
    return {min(counts), max(counts)}


PAGE = """\
# Peers under faults

The same faults on fencelock and on other Python locks for Redis and Valkey: in how many of them
anything went wrong, and what.

{summary}

**V**: two held the lock, and the first was not notified; or another's lock was released. **O**: a
lock that no client held kept others out. **H**: a call outlived its timeout. **W**: a wrong answer.
[What each counts, exactly](#how-to-read-it).

![A asks for the lock and the server grants it, but the reply is lost. A reports that it was not \
acquired. The key of no client stays until its ttl of 60 s ends, and B waits until then.]\
(../images/lost-reply.svg)

Every fault is a small program that plays the same events on each library: real processes, a real
server, and a proxy between them that loses or delays a single request or reply. Each was played
{runs} times. {server}, Python {python}; {versions}.

## What was observed

{tables}

## How to read it

{legend}

A lease that ends while its holder keeps working is not a defect by itself: every fixed lease does
that. It counts as **V** if the library does not report it *without a request to the server*,
because a program that asked a moment ago cannot know. Calls that ask the server are in the second
tables. *At once* means that the lease object knew without a request; *soon*, that the library
notified the holder within 2.5 s; *when it asks* and *at release*, that this call reported it. Where
a holder that was frozen finds out through its next extension, it is a race whether it does any work
before that call; the race is played here as it comes.

## How each was used

As documented, with its defaults, and with the ttl and timeout that the row names, else 60 s.
*Renewal on*: the library renews automatically, or the program calls its extension every third of
the ttl; an extension that fails in any way counts as a notification. Renewal is on unless the row
says otherwise.

{notes}

## What this cannot show

- Only one server was used. What Redlock on several masters adds is not measured; with one master,
  those libraries promise no more than the others.
- A fault is played at one place of one call. Other places may show other results.
- The restart without data breaks every lock on one server. The row only shows which holders are
  notified.
- redlock-ng requires redis-py below 6 and runs with the version above; the clients that it makes
  do not repeat commands that got no reply. aioredlock is no longer developed.
- The server in Cluster mode was used as a plain one. Whether a library has a Cluster client, and
  how that behaves, was not tested.

## See for yourself

This page is generated by [verification/peers](../../verification/peers/README.md); do not edit it.

```sh
python benchmarks/setup.py                                   # once: all peers, pinned
.venv-benchmarks/bin/python -m verification.peers --write    # a quarter of an hour
.venv-benchmarks/bin/python -m verification.peers --only acquire-reply-lost --columns redis-py
```
"""
