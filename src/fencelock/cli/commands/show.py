"""``fencelock show``: one lock, its holder and its line of waiters."""

from __future__ import annotations

import time
from typing import Final

from fencelock._core.inspect import LockInfo, Person, Share, show
from fencelock._core.inspect_signals import parked
from fencelock._core.once import Done, OnceKeys, read
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.commands import primitives
from fencelock.cli.commands.ls import summary
from fencelock.cli.output import facts, human, json_line, table
from fencelock.cli.session import Session
from fencelock.cli.wait_status import held_by, person
from fencelock.errors import ServerUnsuitable

_WAITERS: Final = 1000


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "show",
        "show one lock, its holder and its line of waiters",
        example="fencelock show orders:42",
    )
    arguments.add_name(made)
    arguments.add_server(made)
    args = made.parse_args(argv)
    with Session(args) as session:
        keys = session.keys(args.name)
        info = run_blocking(show(session.port, keys, _WAITERS))
        done = run_blocking(read(session.port, OnceKeys(session.prefix, args.name)))
        other = primitives.one(session, args.name) if info.kind == "other" else None
        waiting = run_blocking(parked(session.port, keys)) if info.kind == "lock" else 0
    if other is not None:
        primitives.print_one(other, keys.lock.decode(), json=args.json)
        return 0
    if info.kind == "other":
        raise ServerUnsuitable(f"the key of {args.name!r} holds something that is not a lock")
    key = keys.lock.decode()
    if args.json:
        line = [_told(place, who) for place, who in enumerate(info.waiters, 1)]
        holders = [_holding(info, each) for each in info.holders]
        more = {"holders": holders} if info.limit else {"parked": waiting}
        told = {"key": key, "waiters": line, "done": _done(done)}
        json_line(summary(info) | told | more)
    else:
        _print(info, key, done, waiting)
    return 0


def _print(info: LockInfo, key: str, done: Done | None, notifiable: int) -> None:
    who = info.holder
    left = info.remaining
    facts(
        {
            "name": info.name,
            "key": key,
            "state": held_by(info),
            "doing": who.unit if who else "",
            "lease": f"{human(left)} left" if info.held and left is not None else "",
            "fence": str(info.fence) if info.fence else "",
            "waiting": str(info.waiting),
            "done": f"{_instant(done.ended)} by {done.who}, fence {done.fence}" if done else "",
            "parked": str(notifiable) if notifiable else "",
        }
    )
    if info.holders:
        print()
        table(("HOLDER", "DOING", "HAS", "HELD FOR", "LEASE", "FENCE"), _holders(info))
        more = info.holding - len(info.holders)
        if more > 0:
            print(f"and {more} more")
    if info.waiters:
        print()
        rows = [
            (str(n), person(each), each.unit, *([_part(info, each)] if info.limit else []))
            for n, each in enumerate(info.waiters, 1)
        ]
        table(("#", "WAITER", "DOING", *(["WANTS"] if info.limit else [])), rows)
        more = info.waiting - len(info.waiters)
        if more > 0:
            print(f"and {more} more")


def _holders(info: LockInfo) -> list[tuple[str, ...]]:
    return [
        (
            person(each.who),
            each.who.unit,
            _part(info, each.who),
            human(each.held_for),
            human(each.remaining),
            str(each.fence),
        )
        for each in info.holders
    ]


def _part(info: LockInfo, who: Person) -> str:
    """Return what somebody has or wants of the permits."""
    if info.kind == "rwlock":
        return "write" if who.permits >= info.limit else "read"
    return f"{who.permits} of {info.limit}"


def _holding(info: LockInfo, each: Share) -> dict[str, object]:
    who = each.who
    part = {"side": _part(info, who)} if info.kind == "rwlock" else {"permits": who.permits}
    return {
        "host": who.host,
        "pid": who.pid,
        "unit": who.unit,
        "label": who.label,
        **part,
        "held_for": round(each.held_for, 3),
        "lease": round(each.remaining, 3),
        "fence": each.fence,
    }


def _instant(unix: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix))


def _done(done: Done | None) -> dict[str, object] | None:
    """Return what came of `once` with that name."""
    if done is None:
        return None
    return {
        "by": done.who,
        "fence": done.fence,
        "started": round(done.started, 3),
        "ended": round(done.ended, 3),
    }


def _told(place: int, who: Person) -> dict[str, object]:
    return {
        "place": place,
        "host": who.host,
        "pid": who.pid,
        "unit": who.unit,
        "label": who.label,
        "since": round(who.since, 3),
    }
