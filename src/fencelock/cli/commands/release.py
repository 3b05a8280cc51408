"""``fencelock release``: give back a lock that a script took."""

from __future__ import annotations

from fencelock._core.release import release
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.output import json_line
from fencelock.cli.session import Session, not_held
from fencelock.errors import LeaseLost
from fencelock.options import TTL


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "release",
        "give back a lock that a script took",
        more="The next waiter is granted it.\nExit status 76 when the lock was no longer held",
        example='fencelock release deploy --holder "$FENCELOCK_HOLDER"',
    )
    arguments.add_name(made)
    arguments.add_holder(made)
    arguments.add_server(made)
    args = made.parse_args(arguments.with_holder(argv))
    with Session(args) as session:
        try:
            run_blocking(release(session.port, session.adopt(args.name, args.holder, TTL)))
        except LeaseLost as error:
            raise not_held(error) from error
        if args.json:
            json_line({"name": args.name, "released": True})
    return 0
