"""``fencelock break``: take a lock away from its holder, by an operator's word."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError

from fencelock._core.inspect import revoke, show
from fencelock._core.inspect_signals import SignalInfo
from fencelock._core.keys import LockKeys
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.commands import primitives
from fencelock.cli.commands.ls import summary
from fencelock.cli.exits import UsageError
from fencelock.cli.output import json_line, say, visible
from fencelock.cli.session import Session
from fencelock.cli.wait_status import held_by
from fencelock.errors import NotAcquired


def main(argv: list[str]) -> int:
    """Run the command."""
    args = _parsed(argv)
    with Session(args) as session:
        keys = session.keys(args.name)
        other = primitives.one(session, args.name)
        if other is not None:
            return _break_other(session, other, args)
        if not args.yes:
            _ask(session, keys, args.only)
        lost = run_blocking(revoke(session.port, keys, args.reason, args.only))
    if args.json:
        json_line({"name": args.name, "broken": lost is not None, "was": lost and summary(lost)})
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


def _break_other(session: Session, info: SignalInfo, args: arguments.Arguments) -> int:
    """Break a barrier. Its parties are told that it was aborted; the reason is for the log."""
    if not args.yes and info.kind == "barrier":
        _sure(session, f"{info.name} is a barrier, {info.doing}. Break it? [y/N] ", info.name)
    primitives.break_one(session, info)
    if args.json:
        json_line({"name": info.name, "broken": True, "was": primitives.summary(info)})
    else:
        print(visible(f"{info.name} was a barrier, {info.doing}"))
    return 0


def _process(text: str) -> tuple[str, int]:
    host, colon, pid = text.rpartition(":")
    if not colon or not host or not pid.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not HOST:PID as `fencelock show` prints it")
    return host, int(pid)


def _ask(session: Session, keys: LockKeys, only: tuple[str, int] | None) -> None:
    info = run_blocking(show(session.port, keys, 1))
    if not info.held:
        return
    whose = "" if only is None else f" from {only[0]}:{only[1]}"
    _sure(session, f"{keys.name} is {held_by(info)}. Take it away{whose}? [y/N] ", keys.name)


def _sure(session: Session, question: str, name: str) -> None:
    print(visible(question), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        text = f"{name!r} was left as it is"
        raise NotAcquired(text, name=name, server=session.port.label)
