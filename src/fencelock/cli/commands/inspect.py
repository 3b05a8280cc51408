"""``fencelock ls``, ``show`` and ``break``: look at locks and other objects, or take them away."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final

from fencelock.blocking.operator import ClientInfo, HolderInfo, LockInfo, Operator
from fencelock.cli import arguments
from fencelock.cli.exits import UsageError
from fencelock.cli.output import facts, human, json_line, say, table, visible
from fencelock.cli.session import Session
from fencelock.cli.wait_status import held_by, person
from fencelock.errors import NotAcquired, ServerUnsuitable

if TYPE_CHECKING:
    from fencelock.blocking.operator import FinishedOnce, StateInfo

_LOCKS: Final = ("NAME", "STATE", "HOLDER", "LABEL", "HELD FOR", "LEASE", "FENCE", "WAITING")
_SIGNALS: Final = ("NAME", "KIND", "STATE", "WAITING", "KEPT FOR")
_WAITERS: Final = 1000

# -- ls --------------------------------------------------------------------------------------------


def ls_command(argv: list[str]) -> int:
    """List locks, and events, latches and barriers."""
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
        operator = session.operator
        locks = [operator.show(name, waiters=1) for name in operator.names(args.glob)]
        signals = operator.signals(args.glob)
    chosen = [each for each in locks if args.all or each.held or each.waiting]
    if args.json:
        json_line([*map(_lock_summary, chosen), *map(_signal_summary, signals)])
        return 0
    if chosen:
        table(_LOCKS, [_lock_row(each) for each in chosen])
    if chosen and signals:
        print()
    if signals:
        table(_SIGNALS, [_signal_row(each) for each in signals])
    if not chosen and not signals:
        say("no locks" if args.glob == "*" else f"no locks that match {args.glob!r}")
    return 0


def _lock_row(info: LockInfo) -> tuple[str, ...]:
    who = info.holder
    held = info.held
    return (
        info.name,
        _state(info),
        f"{who.host}:{who.pid}{_others(info)}" if who else "(not fencelock)" if held else "-",
        (who and who.called) or "-",
        human(info.held_for) if who else "-",
        human(info.remaining) if held and info.remaining is not None else "-",
        str(info.fence) if info.fence else "-",
        str(info.waiting),
    )


def _state(info: LockInfo) -> str:
    """Return the state of a lock in a word or two."""
    if info.kind == "semaphore":
        return f"{info.taken} of {info.limit}"
    if info.kind == "rwlock" and info.held:
        return "written" if info.taken >= info.limit else f"read by {info.taken}"
    return "held" if info.held else "free"


def _others(info: LockInfo) -> str:
    """Return how many more holders there are than the one that is shown."""
    return f" +{info.holding - 1}" if info.holding > 1 else ""


def _lock_summary(info: LockInfo) -> dict[str, Any]:
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
        **(_share_summary(info) if info.limit else {}),
    }


def _share_summary(info: LockInfo) -> dict[str, Any]:
    writing = info.kind == "rwlock" and info.taken >= info.limit
    return {
        "kind": info.kind,
        **({"writing": writing} if info.kind == "rwlock" else {"limit": info.limit}),
        **({} if info.kind == "rwlock" else {"taken": info.taken}),
        "holding": info.holding,
    }


def _signal_row(info: StateInfo) -> tuple[str, ...]:
    return info.name, info.kind, info.doing, str(info.waiting), human(info.remaining)


def _signal_summary(info: StateInfo) -> dict[str, Any]:
    """Return what ``--json`` prints of an event, latch or barrier."""
    data: dict[str, Any] = {"name": info.name, "kind": info.kind, "state": info.state}
    if info.of:
        data |= {"count": info.left, "of": info.of}
    if info.why:
        data["why"] = info.why
    return data | {"waiting": info.waiting, "kept_for": round(info.remaining, 3)}


# -- show ------------------------------------------------------------------------------------------


def show_command(argv: list[str]) -> int:
    """Show one lock, its holder and its line of waiters, or another object."""
    made = arguments.parser(
        "show",
        "show one lock, its holder and its line of waiters",
        example="fencelock show orders:42",
    )
    arguments.add_name(made)
    arguments.add_server(made)
    args = made.parse_args(argv)
    with Session(args) as session:
        operator = session.operator
        key = operator.key(args.name)
        info = operator.show(args.name, waiters=_WAITERS)
        done = operator.once_result(args.name)
        signal = operator.signal(args.name) if info.kind == "other" else None
        notifiable = operator.notifiable(args.name) if info.kind == "lock" else 0
    if signal is not None:
        _print_signal(signal, key, as_json=args.json)
    elif info.kind == "other":
        raise ServerUnsuitable(f"the key of {args.name!r} holds something that is not a lock")
    elif args.json:
        line = [_waiter(place, who) for place, who in enumerate(info.waiters, 1)]
        holders = [_holding(info, each) for each in info.holders]
        more = {"holders": holders} if info.limit else {"parked": notifiable}
        json_line(_lock_summary(info) | {"key": key, "waiters": line, "done": _done(done)} | more)
    else:
        _print_lock(info, key, done, notifiable)
    return 0


def _print_lock(info: LockInfo, key: str, done: FinishedOnce | None, notifiable: int) -> None:
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


def _part(info: LockInfo, who: ClientInfo) -> str:
    """Return which part of the permits a holder has or a waiter wants."""
    if info.kind == "rwlock":
        return "write" if who.permits >= info.limit else "read"
    return f"{who.permits} of {info.limit}"


def _holding(info: LockInfo, each: HolderInfo) -> dict[str, object]:
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


def _done(done: FinishedOnce | None) -> dict[str, object] | None:
    """Return the result of ``once`` under that name."""
    if done is None:
        return None
    return {
        "by": done.who,
        "fence": done.fence,
        "started": round(done.started, 3),
        "ended": round(done.ended, 3),
    }


def _waiter(place: int, who: ClientInfo) -> dict[str, object]:
    return {
        "place": place,
        "host": who.host,
        "pid": who.pid,
        "unit": who.unit,
        "label": who.label,
        "since": round(who.since, 3),
    }


def _print_signal(info: StateInfo, key: str, *, as_json: bool) -> None:
    if as_json:
        json_line(_signal_summary(info) | {"key": key})
        return
    facts(
        {
            "name": info.name,
            "key": key,
            "kind": info.kind,
            "state": info.doing,
            "waiting": str(info.waiting),
            "kept for": human(info.remaining),
        }
    )


# -- break -----------------------------------------------------------------------------------------


def break_command(argv: list[str]) -> int:
    """Take a lock away from its holder, for a reason that an operator gives."""
    args = _parsed(argv)
    with Session(args) as session:
        operator = session.operator
        signal = operator.signal(args.name)
        if signal is not None:
            return _break_signal(operator, signal, args)
        if not args.yes:
            _confirm_lock(operator, args.name, args.only)
        lost = operator.revoke(args.name, args.reason, args.only)
    if args.json:
        was = lost and _lock_summary(lost)
        json_line({"name": args.name, "broken": lost is not None, "was": was})
    elif lost is None:
        process = "nobody" if args.only is None else "no such process"
        say(f"{args.name} was held by {process}")
    else:
        print(visible(f"{args.name} was {held_by(lost)}"))
    return 0


def _parsed(argv: list[str]) -> arguments.Arguments:
    made = arguments.parser(
        "break",
        "take a lock away from its holder",
        more="The holder is notified at once, with the\nreason, and the next waiter gets the lock."
        " Asks for confirmation",
        example='fencelock break deploy --reason "host web3 is down for good"',
    )
    arguments.add_name(made)
    made.add_argument(
        "--reason", metavar="TEXT", required=True, help="the reason, shown to the holder"
    )
    made.add_argument(
        "--only",
        metavar="HOST:PID",
        type=_process,
        help="take a semaphore or reader/writer lock from this process only",
    )
    made.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="do not ask for confirmation; required without a terminal",
    )
    arguments.add_server(made)
    args = made.parse_args(argv)
    args.reason = args.reason.strip()
    if not args.reason:
        raise UsageError("--reason must not be empty: it is what the holder will read")
    if not args.yes and not sys.stdin.isatty():
        raise UsageError("break asks for confirmation, and there is no terminal", hint="add --yes")
    return args


def _break_signal(operator: Operator, info: StateInfo, args: arguments.Arguments) -> int:
    """Break a barrier. Its parties are notified that it was aborted; the reason is for the log."""
    if info.kind != "barrier":
        kind = f"{'an' if info.kind == 'event' else 'a'} {info.kind}"
        raise ServerUnsuitable(f"{info.name!r} is {kind}: it has no holder", code="WRONGTYPE")
    if not args.yes:
        question = f"{info.name} is a barrier, {info.doing}. Break it? [y/N] "
        _confirm(operator, question, info.name)
    operator.break_barrier(info)
    if args.json:
        json_line({"name": info.name, "broken": True, "was": _signal_summary(info)})
    else:
        print(visible(f"{info.name} was a barrier, {info.doing}"))
    return 0


def _process(text: str) -> tuple[str, int]:
    host, colon, pid = text.rpartition(":")
    if not colon or not host or not pid.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not HOST:PID as `fencelock show` prints it")
    return host, int(pid)


def _confirm_lock(operator: Operator, name: str, only: tuple[str, int] | None) -> None:
    info = operator.show(name, waiters=1)
    if not info.held:
        return
    whose = "" if only is None else f" from {only[0]}:{only[1]}"
    _confirm(operator, f"{name} is {held_by(info)}. Take it away{whose}? [y/N] ", name)


def _confirm(operator: Operator, question: str, name: str) -> None:
    print(visible(question), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotAcquired(f"{name!r} was left as it is", name=name, server=operator.server)
