"""``fencelock acquire``, ``renew`` and ``release``: a script holds a lock by its holder id."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fencelock._operator import ActingFor, abandon
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock
from fencelock.cli import arguments
from fencelock.cli.arguments import Arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import has_terminal, json_line
from fencelock.cli.session import Session, patiently
from fencelock.cli.shown import WaitStatus, not_granted
from fencelock.errors import LeaseLost, NotHeld
from fencelock.lease import BaseLease
from fencelock.options import TTL

_EXAMPLE = """\
out=$(fencelock acquire deploy --ttl 10m --no-wait) || exit
  eval "$out"                  # sets FENCELOCK_HOLDER, FENCELOCK_FENCE, FENCELOCK_UNTIL
  ./deploy.sh
  fencelock release deploy --holder "$FENCELOCK_HOLDER\""""


def acquire_command(argv: list[str]) -> int:
    """Take a lock for a script, which renews and releases it itself."""
    made = arguments.Parser(
        "acquire",
        summary="take a lock for a script",
        more="It is not renewed: it ends after its\nttl unless the script renews or releases it",
        example=_EXAMPLE,
    )
    arguments.add_name(made)
    arguments.add_ttl(made, renewed=False)
    arguments.add_wait(made)
    text = "shell: assignments for eval; json: as --json (default: %(default)s)"
    made.add("--format {shell,json}", text, default="shell")
    arguments.add_label(made)
    arguments.add_server(made)
    arguments.add_quiet(made)
    args = made.parse_args(argv)
    # People see the script as the holder, not this process, which ends at once.
    with Session(args) as session, SignalHandlers(), ActingFor("acquire", os.getppid()):
        lock = session.client.lock(args.name, ttl=args.ttl, renew=False, label=args.label or None)
        if not has_terminal():
            session.say_if_alone()
        try:
            with WaitStatus(session.client, lock.name, args):
                patiently(args, lock.acquire)
            lease = lock.lease
            if lease is None:
                raise not_granted(session, lock.name, arguments.within(args))
            fields = {"name": lease.name, "holder": lease.holder, "fence": lease.fence}
            until = _until(lease)
            if args.json or args.format == "json":
                json_line(fields | {"ttl": lease.ttl, "until": until})
            else:
                for name, value in (fields | {"until": until}).items():
                    print(f"FENCELOCK_{name.upper()}={shlex.quote(str(value))}", flush=True)
        except BaseException:  # the script does not have the holder id, so it could not release
            if lock.lease is not None:
                lock.release()
            raise
        abandon(lease)
    return 0


def renew_command(argv: list[str]) -> int:
    """Keep a lock that a script took."""
    made = arguments.Parser(
        "renew",
        more="Its lease then lasts for a ttl from now at least.\n"
        "Exit status 76 when the lock is no longer held",
        example='fencelock renew deploy --holder "$FENCELOCK_HOLDER" --ttl 10m',
    )
    arguments.add_name(made)
    arguments.add_holder(made)
    arguments.add_ttl(made, renewed=False)
    args = made.parse_with_server(arguments.with_holder(argv))
    with _adopted(args, args.ttl) as (session, _, lease):
        lease.renew(args.ttl)
        if args.json:  # it may have had more left
            left = session.client.status(args.name, waiters=0).remaining or 0.0
            until = max(_until(lease), int((time.time() + left) * 1000))
            json_line({"name": args.name, "renewed": True, "ttl": args.ttl, "until": until})
        abandon(lease)
    return 0


def release_command(argv: list[str]) -> int:
    """Give back a lock that a script took."""
    made = arguments.Parser(
        "release",
        more="The next waiter is granted it.\nExit status 76 when the lock was no longer held",
        example='fencelock release deploy --holder "$FENCELOCK_HOLDER"',
    )
    arguments.add_name(made)
    arguments.add_holder(made)
    args = made.parse_with_server(arguments.with_holder(argv))
    with _adopted(args, TTL) as (_, lock, _):
        lock.release()
        if args.json:
            json_line({"name": args.name, "released": True})
    return 0


def _until(lease: BaseLease) -> int:
    return int(lease.expires_at() * 1000)


@contextmanager
def _adopted(args: Arguments, ttl: float) -> Iterator[tuple[Session, Lock, Lease]]:
    """Lend what a holder id holds; NotHeld if that is nothing any more."""
    holder: str = args.holder
    if not holder.isascii() or not holder.isprintable() or not holder or " " in holder:
        raise ValueError(f"--holder is not what `fencelock acquire` printed: {holder!r}")
    with Session(args) as session:
        try:
            yield session, *session.operator.adopt(args.name, holder, ttl)
        except LeaseLost as error:
            revoked = error.reason == "revoked"
            why = f"revoked: {error.detail}" if revoked else "it expired or was released"
            text = f"{error.name!r} is not held by that holder id any more ({why})"
            raise NotHeld(text, name=error.name, server=error.server) from error
