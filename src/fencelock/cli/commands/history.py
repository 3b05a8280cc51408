"""``fencelock history``: long waits, losses, revocations and deadlocks that clients have kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from fencelock.cli import arguments
from fencelock.cli.output import did_you_mean, human, json_line, say, table
from fencelock.cli.session import Session
from fencelock.status import spelled

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry, HolderStatus

_HEADER: Final = ("NAME", "WHEN", "WHAT", "WHO", "FOR", "WHY")
_TOP: Final = ("NAME", "WAITS", "WAITED", "LONGEST", "HELD", "LOST")
_GLOB: Final = frozenset("*?[")
_NEWEST: Final = 50
_EVEN_MORE: Final = 10_000


def history_command(argv: list[str]) -> int:
    """Print what clients have kept, the newest last."""
    made = arguments.Parser(
        "history",
        more="Kept by `run`, `once` and\n`elect`, and by clients that are made with history=True",
        example="fencelock history 'orders:*' --since 7d --top",
    )
    made.add("name NAME", "of one lock, or of those that match a glob (default: of all)", nargs="?")
    text = f"of the last 90s, 5m, 1h or 1d (default: the newest {_NEWEST})"
    made.add("--since DUR", text, type=arguments.positive_duration)
    text = "without the last 90s, 5m, 1h or 1d"
    made.add("--until DUR", text, type=arguments.positive_duration)
    text = "sum by lock, the longest waits first: which one is slow?"
    made.add("--top", text)
    args = made.parse_with_server(argv)
    chosen = None if args.name and _GLOB & {*args.name} else args.name
    asked = args.since or args.until or args.top or chosen != args.name
    with Session(args) as session:
        limit = _EVEN_MORE if asked else _NEWEST
        entries = session.client.history(chosen, within=args.since, limit=limit)
        entries = _wanted(entries, args, chosen)
        known = session.operator.near(args.name) if args.name and not entries else []
    if args.top:
        _print_top(entries, as_json=args.json)
    elif args.json:
        json_line([_all_of(each) for each in entries])
    elif entries:
        table(_HEADER, [_row(each) for each in entries], wraps=True)
    else:
        text = f"nothing is kept of {args.name!r}" if args.name else "nothing is kept"
        if args.since:
            text += f" of the last {human(args.since)}"
        say(f"{text}: {did_you_mean(known)}" if known else text)
    return 0


def _wanted(
    entries: Sequence[HistoryEntry], args: arguments.Arguments, chosen: str | None
) -> list[HistoryEntry]:
    """Return the entries that match the name and end before ``--until``."""
    latest = float("inf") if args.until is None else time.time() - args.until
    pattern = args.name or "*"
    found = [
        each
        for each in entries
        if each.at <= latest and (chosen or each.name == pattern or fnmatchcase(each.name, pattern))
    ]
    return found if args.since or args.until or args.top else found[-_NEWEST:]


def _print_top(entries: Sequence[HistoryEntry], *, as_json: bool) -> None:
    """Print what waits, holds and losses there were of each lock, in all."""
    found = [_summed(name, entries) for name in dict.fromkeys(each.name for each in entries)]
    found.sort(key=lambda each: (-each["waited"], -each["lost"], each["name"]))
    if as_json:
        json_line(found)
    elif not found:
        say("nothing is kept")
    else:
        spans = ("waited", "longest", "held")
        rows = [
            [human(each[key]) if key in spans else str(each[key]) for key in map(str.lower, _TOP)]
            for each in found
        ]
        table(_TOP, rows)


def _summed(name: str, entries: Sequence[HistoryEntry]) -> dict[str, Any]:
    """Return the sums of a lock; a holder counts once, as long as the last wait saw it hold."""
    own = [each for each in entries if each.name == name]
    waits = [each.seconds for each in own if each.kind == "wait"]
    held: dict[int, float] = {}
    for each in own:
        for who in (each.held_by, each.first_held_by):
            if who is not None:
                held[who.fence] = max(held.get(who.fence, 0.0), who.held_for)
    return {
        "name": name,
        "waits": len(waits),
        "waited": round(sum(waits), 3),
        "longest": max(waits, default=0.0),
        "held": round(sum(held.values()), 3),
        "lost": sum(each.kind in {"lost", "revoked"} for each in own),
    }


def _all_of(entry: HistoryEntry) -> dict[str, Any]:
    """Return all that is known of an entry, and of the holders that it names, by name."""
    whole = entry._asdict()
    whom = {name: whole[name] for name in ("held_by", "first_held_by")}
    return whole | {name: who and who._asdict() for name, who in whom.items()}


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    when = time.strftime("%m-%d %H:%M:%S%z", time.localtime(entry.at))
    who = f"{entry.host}:{entry.pid}" if entry.host else "-"
    who += f" ({entry.label})" if entry.label else ""
    what = "waited" if entry.kind == "wait" else entry.kind
    spent = human(entry.seconds) if entry.seconds else "-"
    outcome = entry.outcome.replace("_", " ")
    by = f"by {entry.by}" if entry.by else ""
    why = ", ".join(filter(None, (outcome, entry.reason, entry.detail, _waited_for(entry), by)))
    return entry.name, when, what, who, spent, why


def _waited_for(entry: HistoryEntry) -> str:
    """Return who had the lock meanwhile, for how long at least: as of the last answer."""
    if entry.held_by is None:
        return entry.waited_for
    last, first = entry.held_by, entry.first_held_by
    at_first = "" if first is None else f", at first by {_for_at_least(first)}"
    return f"held by {_for_at_least(last)}{at_first}"


def _for_at_least(who: HolderStatus) -> str:
    return f"{spelled(who)} for at least {human(who.held_for)}, fence {who.fence}"
