"""``fencelock renew``: keep a lock that a script took."""

from __future__ import annotations

from fencelock._core.renew import renew_now
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.output import json_line
from fencelock.cli.session import Session, not_held
from fencelock.errors import LeaseLost


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "renew",
        "keep a lock that a script took",
        more="Its lease then ends a ttl from now.\nExit status 76 when the lock is no longer held",
        example='fencelock renew deploy --holder "$FENCELOCK_HOLDER" --ttl 10m',
    )
    arguments.add_name(made)
    arguments.add_holder(made)
    arguments.add_ttl(made, renewed=False)
    arguments.add_server(made)
    args = made.parse_args(arguments.with_holder(argv))
    with Session(args) as session:
        hold = session.adopt(args.name, args.holder, args.ttl)
        try:
            run_blocking(renew_now(session.port, hold, args.ttl))
        except LeaseLost as error:
            raise not_held(error) from error
        if args.json:
            until = int(hold.lease.expires_at() * 1000)
            json_line({"name": args.name, "renewed": True, "ttl": args.ttl, "until": until})
    return 0
