"""``fencelock ls``: list locks."""

from __future__ import annotations

from typing import Any

from fencelock._core.inspect import LockInfo, names, show
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.commands import primitives
from fencelock.cli.output import human, json_line, say, table
from fencelock.cli.session import Session

_HEADER = ("NAME", "STATE", "HOLDER", "LABEL", "HELD FOR", "LEASE", "FENCE", "WAITING")


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "ls",
        "list locks that are held or waited for",
        more="Locks that only other programs\ntake, with a plain SET, are not known",
        example="fencelock ls 'orders:*'",
    )
    made.add_argument("glob", metavar="GLOB", nargs="?", default="*", help="names (default: all)")
    made.add_argument(
        "-a", "--all", action="store_true", help="also those that were released a short time ago"
    )
    arguments.add_server(made)
    args = made.parse_args(argv)
    with Session(args) as session:
        found = run_blocking(names(session.port, args.prefix, args.glob))
        locks = [run_blocking(show(session.port, session.keys(name), 1)) for name in found]
        others = primitives.found(session, args.glob)
    chosen = [each for each in locks if args.all or each.held or each.waiting]
    if args.json:
        json_line(
            [summary(each) for each in chosen] + [primitives.summary(each) for each in others]
        )
        return 0
    if chosen:
        table(_HEADER, [_row(each) for each in chosen])
    if chosen and others:
        print()
    if others:
        primitives.print_table(others)
    if not chosen and not others:
        say("no locks" if args.glob == "*" else f"no locks that match {args.glob!r}")
    return 0


def _row(info: LockInfo) -> tuple[str, ...]:
    who = info.holder
    held = info.held
    return (
        info.name,
        state(info),
        f"{who.host}:{who.pid}{others(info)}" if who else "(not fencelock)" if held else "-",
        (who and who.called) or "-",
        human(info.held_for) if who else "-",
        human(info.remaining) if held and info.remaining is not None else "-",
        str(info.fence) if info.fence else "-",
        str(info.waiting),
    )


def state(info: LockInfo) -> str:
    """Return in a word or two whether it is held."""
    if info.kind == "semaphore":
        return f"{info.taken} of {info.limit}"
    if info.kind == "rwlock" and info.held:
        return "written" if info.taken >= info.limit else f"read by {info.taken}"
    return "held" if info.held else "free"


def others(info: LockInfo) -> str:
    """Return how many hold beside the one that is shown."""
    return f" +{info.holding - 1}" if info.holding > 1 else ""


def summary(info: LockInfo) -> dict[str, Any]:
    """Return what ``--json`` prints of a lock."""
    who = info.holder
    return {
        "name": info.name,
        "held": info.held,
        "holder": {"host": who.host, "pid": who.pid, "unit": who.unit, "label": who.label}
        if who
        else None,
        "held_for": round(info.held_for, 3) if who else None,
        "lease": round(info.remaining, 3) if info.held and info.remaining is not None else None,
        "fence": info.fence,
        "waiting": info.waiting,
        **(_shares(info) if info.limit else {}),
    }


def _shares(info: LockInfo) -> dict[str, Any]:
    writing = info.kind == "rwlock" and info.taken >= info.limit
    return {
        "kind": info.kind,
        **({"writing": writing} if info.kind == "rwlock" else {"limit": info.limit}),
        **({} if info.kind == "rwlock" else {"taken": info.taken}),
        "holding": info.holding,
    }
