"""``fencelock ls``, ``show`` and ``revoke``: look at locks and other objects, or take them away."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fencelock._core.look.graph import Block, around, blocks
from fencelock.cli import arguments, wait_tree
from fencelock.cli.exits import LOST, BadValueError, UsageError
from fencelock.cli.output import did_you_mean, facts, human, json_line, say, table, visible
from fencelock.cli.session import Session
from fencelock.cli.shown import LESS, held_by, lease, person, row
from fencelock.errors import NotAcquired, ServerDenied, ServerUnsuitable

if TYPE_CHECKING:
    from fencelock._operator import FinishedOnce, Operator
    from fencelock.blocking.client import Client
    from fencelock.status import HistoryEntry, HolderStatus, LockStatus, SignalStatus, WaiterStatus

_WAITERS: Final = 1000
_WATCH_SECONDS: Final = 1.0

# -- ls --------------------------------------------------------------------------------------------


def ls_command(argv: list[str]) -> int:
    """List locks, and events, latches and barriers."""
    made = arguments.Parser(
        "ls",
        summary="list locks that are held or waited for",
        more="Locks that only other programs\ntake, with a plain SET, are not known",
        example="fencelock ls 'orders:*'",
    )
    made.add("glob GLOB", "names (default: all)", nargs="?", default="*")
    made.add("-a --all", "also those that were released a short time ago")
    text = "only those held so long; for monitoring: exit status 1 when there is one"
    made.add("--held-longer DUR", text)
    made.add("-w --watch", "list them again every second, until Ctrl-C")
    args = made.parse_with_server(argv)
    longer: float | None = args.held_longer
    if args.watch and longer is not None:
        raise UsageError("--watch lists all locks in use", hint="leave --held-longer out")
    with Session(args) as session:
        if args.watch:
            _watch(session, args)
        chosen = session.client.locks(args.glob, recent=args.all)
        signals = session.client.signals(args.glob) if longer is None else []
    if longer is None:
        return _print_all(args, chosen, signals)
    return _print_longer(args, [each for each in chosen if _held_for(each) >= longer])


def _held_for(lock: LockStatus) -> float:
    """Return for how long its first holder has held it; 0 if that is not known."""
    return max((who.held_for for who in lock.holders), default=0.0) if lock.held else 0.0


def _print_longer(args: arguments.Arguments, chosen: list[LockStatus]) -> int:
    """Print locks that are held for too long, and return the exit status."""
    if chosen or args.json:
        _print_all(args, chosen, [])
    return 1 if chosen else 0


def _watch(session: Session, args: arguments.Arguments) -> NoReturn:
    """List locks again and again; without a terminal, or as JSON, one after the other."""
    if args.all:
        raise UsageError("--watch lists locks in use only", hint="leave --all out")
    overview = session.operator.overview(args.glob)
    erase = "\x1b[H\x1b[2J\x1b[3J" if sys.stdout.isatty() and not args.json else ""
    while True:
        shown = session.operator.refresh(overview)
        print(erase, end="")
        _print_all(args, shown, [])
        sys.stdout.flush()
        time.sleep(_WATCH_SECONDS)


def _print_all(
    args: arguments.Arguments, chosen: list[LockStatus], signals: list[SignalStatus]
) -> int:
    if args.json:
        json_line([*map(_lock_summary, chosen), *map(_signal_summary, signals)])
        return 0
    if chosen:
        rows = [row(each) for each in chosen]
        table([*rows[0]], [[*each.values()] for each in rows], less=LESS)
    if chosen and signals:
        print()
    if signals:
        cells = [
            (each.name, each.kind, each.doing, str(each.waiting), human(each.remaining))
            for each in signals
        ]
        table(("NAME", "KIND", "STATE", "WAITING", "KEPT FOR"), cells)
    if not chosen and not signals:
        say("no locks" if args.glob == "*" else f"no locks that match {args.glob!r}")
    return 0


def _lock_summary(info: LockStatus) -> dict[str, Any]:
    """Return what ``--json`` prints of a lock."""
    who = info.holder
    data: dict[str, Any] = {
        "name": info.name,
        "held": info.held,
        "kept": info.kept,
        "holder": _person(who) | _others_of(who) if who else None,
        "held_for": round(who.held_for, 3) if who else None,
        "lease": round(info.remaining, 3) if info.held and info.remaining is not None else None,
        "fence": info.fence,
        "waiting": info.waiting_units,
    }
    if info.field:
        data |= {"kind": info.kind, "field": info.field}
    if info.limit:
        data["kind"] = info.kind
        if info.kind == "rwlock":
            data["writing"] = info.writing
        else:
            data |= {"limit": info.limit, "taken": info.taken}
        data["holding"] = info.holding
    return data


def _signal_summary(info: SignalStatus) -> dict[str, Any]:
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
    made = arguments.Parser("show", example="fencelock show orders:42")
    arguments.add_name(made)
    args = made.parse_with_server(argv)
    with Session(args) as session:
        operator = session.operator
        key = operator.key(args.name)
        info = session.client.status(args.name, waiters=_WAITERS)
        done = operator.once_result(args.name)
        failed = operator.last_failed_run(args.name) if info.kind == "lock" else None
        signal = _signal(session.client, args.name) if info.kind == "other" else None
        unknown = not (info.fence or info.held or info.waiting or done or failed or signal)
        near = operator.near(args.name) if unknown else []
        found = _waits(session.client, info)
    if signal is not None:
        _print_signal(signal, key, as_json=args.json)
    elif info.kind == "other":
        raise ServerUnsuitable(f"the key of {args.name!r} holds something that is not a lock")
    elif args.json:
        line = [_waiter(who) for who in info.listed_waiters]
        finished = done and {"by": done.who, "fence": done.fence} | {
            name: round(getattr(done, name), 3) for name in ("started", "ended")
        }
        waits = [*map(wait_tree.summary, found)]
        last = _last_run(done, failed)
        shown = {"key": key, "waiters": line, "done": finished, "last": last, "waits": waits}
        if info.limit:
            shown["holders"] = [_holding(info, each) for each in info.holders]
        json_line(_lock_summary(info) | shown)
    else:
        _print_lock(info, key, done, _last_run(done, failed))
        if any(block.name != info.name for block in found):  # else the line of waiters says it
            print("\nwho blocks whom:")
            wait_tree.print_tree(found)
    if near:
        say(did_you_mean(near))
    return 0


def _waiter(who: WaiterStatus) -> dict[str, Any]:
    times = {"since": round(who.since, 3), "waited": round(who.waited, 3)}
    return {"place": who.place, **_person(who), **_others_of(who), **times}


def _waits(client: Client, info: LockStatus) -> list[Block]:
    """Return the waits that have to do with a lock; none without the permission for SCAN."""
    if not info.waiting_units:
        return []
    try:
        return around(blocks(client.locks(waiters=_WAITERS)), info.name)
    except ServerDenied:
        return []


def _signal(client: Client, name: str) -> SignalStatus | None:
    """Return the event, latch or barrier of a name."""
    return next(iter(client.signals(names=[name])), None)


def _last_run(done: FinishedOnce | None, failed: HistoryEntry | None) -> dict[str, Any] | None:
    """Return of a ``once`` who ran it last, when, for how long, and how it ended."""
    if failed is not None and (done is None or failed.at > done.ended):
        who = f"{failed.host}:{failed.pid}" + (f" ({failed.label})" if failed.label else "")
        started, seconds, ended = failed.at - failed.seconds, failed.seconds, failed.outcome
    elif done is not None:
        who, started, seconds, ended = done.who, done.started, done.ended - done.started, "done"
    else:
        return None
    return {"by": who, "started": round(started, 3), "seconds": round(seconds, 3), "how": ended}


def _print_lock(
    info: LockStatus, key: str, done: FinishedOnce | None, last: dict[str, Any] | None
) -> None:
    who, left, waiting, finished = info.holder, info.remaining, str(info.waiting), ""
    if info.waiting_units > info.waiting:
        waiting += f", and {info.waiting_units - info.waiting} for others of their client"
    ran = ""
    if last is not None:
        took = human(last["seconds"])
        ran = f"{_instant(last['started'])} by {last['by']}, for {took}: {last['how']}"
    if done is not None:
        finished = f"{_instant(done.ended)} by {done.who}, fence {done.fence}"
    facts(
        {
            "name": info.name,
            "key": key,
            "state": held_by(info),
            "doing": who.doing if who else "",
            "lease": f"{human(left)} left" if info.held and left is not None else "",
            "fence": str(info.fence) if info.fence else "",
            "waiting": waiting,
            "done": finished,
            "last run": ran,
        }
    )
    if info.holders and info.limit:  # else the lines above say it all
        print()
        rows = [_holder_row(info, each) for each in info.holders]
        table(("HOLDER", "DOING", "HAS", "HELD FOR", "LEASE", "FENCE"), rows)
        _print_more(info.holding - len(info.holders))
    if info.listed_waiters:
        print()
        header = ("#", "WAITER", "DOING", "FOR", "WANTS")[: 5 if info.limit else 4]
        line = [
            (str(each.place or "-"), person(each), each.doing, human(each.waited))
            + ((_part(info, each),) if info.limit else ())
            for each in info.listed_waiters
        ]
        table(header, line)
        _print_more(info.waiting - len(info.waiters))


def _instant(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def _print_more(number: int) -> None:
    if number > 0:
        print(f"and {number} more")


def _holder_row(info: LockStatus, who: HolderStatus) -> tuple[str, ...]:
    spans = human(who.held_for), lease(who.remaining)
    return person(who), who.unit, _part(info, who), *spans, str(who.fence)


def _part(info: LockStatus, who: HolderStatus | WaiterStatus) -> str:
    """Return which part of the permits a holder has or a waiter wants."""
    if info.kind == "rwlock":
        return "write" if who.permits >= info.limit else "read"
    return f"{who.permits} of {info.limit}"


def _holding(info: LockStatus, who: HolderStatus) -> dict[str, object]:
    part = {"side": _part(info, who)} if info.kind == "rwlock" else {"permits": who.permits}
    return {
        **_person(who),
        **part,
        "held_for": round(who.held_for, 3),
        "lease": None if who.remaining is None else round(who.remaining, 3),
        "fence": who.fence,
    }


def _person(who: HolderStatus | WaiterStatus) -> dict[str, Any]:
    """Return which thread or task of which process it is."""
    return {"host": who.host, "pid": who.pid, "unit": who.unit, "label": who.label}


def _others_of(who: HolderStatus | WaiterStatus) -> dict[str, int]:
    """Return how many of the same client take turns with it; nothing when none did as it asked."""
    return {"others": who.others} if who.others else {}


def _print_signal(info: SignalStatus, key: str, *, as_json: bool) -> None:
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


# -- revoke ----------------------------------------------------------------------------------------


def revoke_command(argv: list[str]) -> int:
    """Take a lock away from its holder, for a reason that an operator gives."""
    args = _parsed(argv)
    with Session(args) as session:
        client = session.client
        signal = _signal(client, args.name)
        if signal is not None:
            return _abort_barrier(session.operator, signal, args)
        info = None if args.yes else client.status(args.name, waiters=1)
        if info is not None and info.held:
            whose = "" if args.only is None else f" from {args.only[0]}:{args.only[1]}"
            question = f"{args.name} is {held_by(info)}. Take it away{whose}? [y/N] "
            _confirm(session.operator, question, args.name)
        lost = client.revoke(args.name, reason=args.reason, only=args.only)
        near = session.operator.near(args.name) if lost is None and not args.only else []
    if args.json:
        was = lost and _lock_summary(lost)
        json_line({"name": args.name, "revoked": lost is not None, "was": was})
    elif lost is None:
        say(f"{args.name} was not held" + (" by such a process" if args.only else ""))
        if near:
            say(did_you_mean(near))
    else:
        print(visible(f"{args.name} was {held_by(lost)}"))
    return LOST if lost is None else 0


def _parsed(argv: list[str]) -> arguments.Arguments:
    made = arguments.Parser(
        "revoke",
        more="The holder is notified at once, with the\nreason, and the next waiter gets the lock."
        " Asks for confirmation",
        example='fencelock revoke deploy --reason "host web3 is down for good"',
    )
    arguments.add_name(made)
    made.add("--reason TEXT", "the reason, shown to the holder", required=True)
    text = "take a semaphore or reader/writer lock from this process only"
    made.add("--only HOST:PID", text, type=_process)
    made.add("-y --yes", "do not ask for confirmation; required without a terminal")
    args = made.parse_with_server(argv)
    args.reason = args.reason.strip()
    if not args.reason:
        raise UsageError("--reason must not be empty: it is what the holder will read")
    if not args.yes and not sys.stdin.isatty():
        raise UsageError("revoke asks for confirmation, and there is no terminal", hint="add --yes")
    return args


def _abort_barrier(operator: Operator, info: SignalStatus, args: arguments.Arguments) -> int:
    """Abort a barrier. Its parties are notified; the reason is for the log."""
    if info.kind != "barrier":
        kind = f"{'an' if info.kind == 'event' else 'a'} {info.kind}"
        raise ServerUnsuitable(f"{info.name!r} is {kind}: it has no holder", code="WRONGTYPE")
    if not args.yes:
        question = f"{info.name} is a barrier, {info.doing}. Abort it? [y/N] "
        _confirm(operator, question, info.name)
    operator.abort_barrier(info)
    if args.json:
        json_line({"name": info.name, "revoked": True, "was": _signal_summary(info)})
    else:
        print(visible(f"{info.name} was a barrier, {info.doing}"))
    return 0


def _process(text: str) -> tuple[str, int]:
    host, colon, pid = text.rpartition(":")
    if not colon or not host or not pid.isdecimal():
        raise BadValueError(f"{text!r} is not HOST:PID as `fencelock show` prints it")
    return host, int(pid)


def _confirm(operator: Operator, question: str, name: str) -> None:
    print(visible(question), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotAcquired(f"{name!r} was left as it is", name=name, server=operator.server)
