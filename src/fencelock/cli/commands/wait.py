"""``fencelock wait``: wait until a lock is free, and take nothing.

It does not stand in line, so it never delays anybody; it looks now and then.
"""

from __future__ import annotations

from typing import Final

from fencelock._core.inspect import LockInfo, show
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import json_line
from fencelock.cli.session import Session
from fencelock.cli.wait_status import Patience, WaitStatus
from fencelock.clock import now
from fencelock.errors import AcquireTimeout, ServerUnsuitable

_LOOK_SECONDS: Final = 0.5
_LOOK_MIN: Final = 0.01


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "wait",
        "wait until a lock is free, without taking it",
        more="Exit status 75 if it was not\nfree in time. Another client may take it at any moment",
        example="fencelock wait migration --wait 5m && ./start-server.sh",
    )
    arguments.add_name(made)
    arguments.add_wait(made)
    arguments.add_server(made)
    arguments.add_quiet(made)
    args = made.parse_args(argv)
    began = now()
    with Session(args) as session, SignalHandlers():
        keys = session.keys(args.name)
        patience = arguments.patience(args)
        quiet = args.quiet or patience == arguments.ONE_TRY
        with WaitStatus(session.port, keys, quiet=quiet):
            info = _free(session, args.name, Patience(patience))
    if args.json:
        json_line({"name": args.name, "free": not info.full, "waited": round(now() - began, 3)})
    if info.full:
        within = arguments.within(args)
        text = f"{args.name!r} was not free{within}"
        raise AcquireTimeout(text, name=args.name, server=session.port.label)
    return 0


def _free(session: Session, name: str, patience: Patience) -> LockInfo:
    """Return the last look: free, or time is up."""
    port, keys = session.port, session.keys(name)
    while True:
        info = run_blocking(show(port, keys, 1))
        if info.kind == "other":
            raise ServerUnsuitable(
                f"the key of {name!r} holds something that is not a lock", code="WRONGTYPE"
            )
        left = patience.left()
        if not info.full or left == 0.0:
            return info
        ends_in = _LOOK_SECONDS if info.remaining is None else info.remaining
        pause = max(_LOOK_MIN, min(ends_in, _LOOK_SECONDS))
        run_blocking(port.sleep(port.now() + min(pause, left)))
