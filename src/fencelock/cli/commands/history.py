"""``fencelock history``: long waits, losses, revocations and deadlocks that clients have kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fencelock.cli import arguments
from fencelock.cli.output import did_you_mean, human, json_line, say, table
from fencelock.cli.session import Session

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry

_HEADER: Final = ("NAME", "WHEN", "WHAT", "WHO", "FOR", "WHY")
_NEWEST: Final = 50
_EVEN_MORE: Final = 10_000


def history_command(argv: list[str]) -> int:
    """Print what clients have kept, the newest last."""
    made = arguments.Parser(
        "history",
        more="Clients that are made\nwith history=True keep them",
        example="fencelock history orders:42 --since 1h",
    )
    made.add("name NAME", "of one lock (default: of all)", nargs="?")
    text = f"of the last 90s, 5m, 1h or 1d (default: the newest {_NEWEST})"
    made.add("--since DUR", text, type=arguments.positive_duration)
    args = made.parse_with_server(argv)
    limit = _NEWEST if args.since is None else _EVEN_MORE
    with Session(args) as session:
        entries = session.client.history(args.name, within=args.since, limit=limit)
        known = session.operator.near(args.name) if args.name and not entries else []
    if args.json:
        json_line([_all_of(each) for each in entries])
    elif entries:
        table(_HEADER, [_row(each) for each in entries], wraps=True)
    else:
        text = f"nothing is kept of {args.name!r}" if args.name else "nothing is kept"
        if args.since:
            text += f" of the last {human(args.since)}"
        say(f"{text}: {did_you_mean(known)}" if known else text)
    return 0


def _all_of(entry: HistoryEntry) -> dict[str, Any]:
    """Return all that is known of an entry, and of the holders that it names, by name."""
    whole = entry._asdict()
    whom = {name: whole[name] for name in ("held_by", "first_held_by")}
    return whole | {name: who and who._asdict() for name, who in whom.items()}


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    when = time.strftime("%m-%d %H:%M:%S", time.localtime(entry.at))
    who = f"{entry.host}:{entry.pid}" if entry.host else "-"
    who += f" ({entry.label})" if entry.label else ""
    what = "waited" if entry.kind == "wait" else entry.kind
    spent = human(entry.seconds) if entry.seconds else "-"
    outcome = entry.outcome.replace("_", " ")
    by = f"by {entry.by}" if entry.by else ""
    why = ", ".join(filter(None, (outcome, entry.reason, entry.detail, entry.waited_for, by)))
    return entry.name, when, what, who, spent, why
