"""``fencelock show``: one lock, its holder and its line of waiters."""

from __future__ import annotations

from typing import Final

from fencelock._core.inspect import LockInfo, Person, show
from fencelock._core.inspect_signals import parked
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments, signals_shown
from fencelock.cli.ls import summary
from fencelock.cli.output import facts, human, json_line, table
from fencelock.cli.session import Session
from fencelock.cli.waiting import held_by, person
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
        other = signals_shown.one(session, args.name) if info.kind == "other" else None
        waiting = run_blocking(parked(session.port, keys)) if info.kind == "lock" else 0
    if other is not None:
        signals_shown.print_one(other, keys.lock.decode(), json=args.json)
        return 0
    if info.kind != "lock":
        raise ServerUnsuitable(f"the key of {args.name!r} holds something that is not a lock")
    key = keys.lock.decode()
    if args.json:
        line = [_told(place, who) for place, who in enumerate(info.waiters, 1)]
        json_line(summary(info) | {"key": key, "waiters": line, "parked": waiting})
    else:
        _print(info, key, waiting)
    return 0


def _print(info: LockInfo, key: str, notifiable: int) -> None:
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
            "parked": str(notifiable) if notifiable else "",
        }
    )
    if info.waiters:
        print()
        rows = [(str(n), person(each), each.unit) for n, each in enumerate(info.waiters, 1)]
        table(("#", "WAITER", "DOING"), rows)
        more = info.waiting - len(info.waiters)
        if more > 0:
            print(f"and {more} more")


def _told(place: int, who: Person) -> dict[str, object]:
    return {
        "place": place,
        "host": who.host,
        "pid": who.pid,
        "unit": who.unit,
        "label": who.label,
        "since": round(who.since, 3),
    }
