"""``fencelock acquire``: take a lock for a script, which renews and releases it itself."""

from __future__ import annotations

import json
import os
import shlex

from fencelock._core.hold import Hold
from fencelock._core.release import release
from fencelock._core.want import Want
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments
from fencelock.cli.arguments import Arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import json_line
from fencelock.cli.session import Session
from fencelock.cli.wait_status import WaitStatus, not_granted

_EXAMPLE = """\
out=$(fencelock acquire deploy --ttl 10m --no-wait) || exit
  eval "$out"                  # sets FENCELOCK_HOLDER, FENCELOCK_FENCE, FENCELOCK_UNTIL
  ./deploy.sh
  fencelock release deploy --holder "$FENCELOCK_HOLDER\""""


def main(argv: list[str]) -> int:
    """Run the command."""
    args = _parsed(argv)
    with Session(args) as session, SignalHandlers():
        want = _as_script(
            session.want(args.name, unit="acquire", ttl=args.ttl, renew=False, label=args.label)
        )
        patience = arguments.patience(args)
        quiet = args.quiet or patience == arguments.ONE_TRY
        with WaitStatus(session.port, want.keys, quiet=quiet):
            hold = session.take(want, patience)
        if hold is None:
            raise not_granted(session.port, want.keys, arguments.within(args))
        try:
            _print(hold, as_json=args.json or args.format == "json")
        except BaseException:  # nobody has the holder id: nobody could give the lock back
            run_blocking(release(session.port, hold))
            raise
        session.leave(hold)
    return 0


def _parsed(argv: list[str]) -> Arguments:
    made = arguments.parser(
        "acquire",
        "take a lock for a script",
        more="It is not renewed: it ends after its\nttl unless the script renews or releases it",
        example=_EXAMPLE,
    )
    arguments.add_name(made)
    arguments.add_ttl(made, renewed=False)
    arguments.add_wait(made)
    made.add_argument(
        "--format",
        choices=("shell", "json"),
        default="shell",
        help="shell: assignments for eval; json: as --json (default: %(default)s)",
    )
    arguments.add_label(made)
    arguments.add_server(made)
    arguments.add_quiet(made)
    return made.parse_args(argv)


def _as_script(want: Want) -> Want:
    """Name the script to people, not this process, which ends at once."""
    told = json.loads(want.info) | {"pid": os.getppid()}
    want.info = json.dumps(told, separators=(",", ":")).encode()
    return want


def _print(hold: Hold, *, as_json: bool) -> None:
    lease = hold.lease
    until = int(lease.expires_at() * 1000)
    if as_json:
        json_line(
            {
                "name": lease.name,
                "holder": lease.holder,
                "fence": lease.fence,
                "ttl": lease.ttl,
                "until": until,
            }
        )
        return
    print(f"FENCELOCK_NAME={shlex.quote(lease.name)}")
    print(f"FENCELOCK_HOLDER={shlex.quote(lease.holder)}")
    print(f"FENCELOCK_FENCE={lease.fence}")
    print(f"FENCELOCK_UNTIL={until}", flush=True)
