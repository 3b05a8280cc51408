"""``fencelock wait``: wait until a lock is free, and take nothing.

It is not in the line of waiters, so it delays no client; it asks the server now and then.
"""

from __future__ import annotations

import time
from typing import Final

from fencelock._runtime.clock import now
from fencelock.cli import arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import json_line
from fencelock.cli.session import Session
from fencelock.cli.shown import WaitStatus
from fencelock.errors import AcquireTimeout, ServerUnsuitable

_PAUSE_MAX: Final = 0.5
_PAUSE_MIN: Final = 0.01


def wait_command(argv: list[str]) -> int:
    """Wait until a lock is free."""
    made = arguments.Parser(
        "wait",
        more="Exit status 75 if it was not\nfree in time. Another client may take it at any moment",
        example="fencelock wait migration --wait 5m && ./start-server.sh",
    )
    arguments.add_name(made)
    arguments.add_wait(made)
    arguments.add_server(made)
    arguments.add_quiet(made)
    args = made.parse_args(argv)
    began = now()
    within = 0.0 if arguments.one_try(args) else args.wait
    deadline = float("inf") if within is None else began + within
    with Session(args) as session, SignalHandlers():
        client = session.client
        with WaitStatus(client, args.name, args):
            while True:
                info = client.status(args.name, waiters=1)
                if info.kind == "other":
                    text = f"the key of {args.name!r} holds something that is not a lock"
                    raise ServerUnsuitable(text, code="WRONGTYPE")
                left = deadline - now()
                if not info.full or left <= 0:
                    break
                ends_in = _PAUSE_MAX if info.remaining is None else info.remaining
                time.sleep(min(max(_PAUSE_MIN, min(ends_in, _PAUSE_MAX)), left))
    if args.json:
        json_line({"name": args.name, "free": not info.full, "waited": round(now() - began, 3)})
    if info.full:
        text = f"{args.name!r} was not free{arguments.within(args)}"
        raise AcquireTimeout(text, name=args.name, server=session.operator.server)
    return 0
