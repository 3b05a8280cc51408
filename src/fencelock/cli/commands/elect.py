"""``fencelock elect``: keep a command running on exactly one of many hosts.

Each term is one ``fencelock run``. When a leadership is lost, this process becomes a fresh copy of
itself (same pid, no threads) that stands for election again: a supervisor is forked from little.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Final, NoReturn

from fencelock.cli import arguments, exits
from fencelock.cli.commands.run import add_grace, under_supervisor, with_command

# These ask us to end, and the command gets them; whatever it does, we do not campaign again.
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

EXITS = """\
exit status: the command's own when it ends by itself, 128+n when signal n killed it or
  ended a wait    77 denied    64 usage    126/127 cannot run CMD
When the leadership is lost or the server is silent, it stands for election again."""


def elect_command(argv: list[str]) -> int:
    """Run the command whenever this host is elected."""
    made = arguments.Parser(
        "elect",
        more="CMD is started when this host is\nelected, and stopped before the leadership can end",
        example="fencelock elect scheduler -- ./scheduler\n\n" + EXITS,
    )
    arguments.add_name(made)
    made.add("--candidate TEXT", "the name of this candidate (default: host:pid)")
    text = "when CMD ends by itself, resign, and stand again after DUR (default: end)"
    made.add("--restart DUR", text)
    arguments.add_ttl(made, renewed=True)
    text = (
        "what happens to CMD when the leadership is lost: TERM and then KILL, or KILL at once"
        " (default: %(default)s)"
    )
    made.add("--on-lost {term,kill}", text, default="term")
    add_grace(made)
    args = with_command(made, argv)
    args.no_wait, args.wait, args.busy_exit = False, None, 0
    args.at_least = args.max_hold = None
    args.again = args.ended = False
    args.ending, args.received = _ENDING, set()
    status = under_supervisor(args, "ElectionRun")
    if not args.again:
        return status
    # From here on a signal has its usual meaning. One that came after the command ended, and before
    # here, was only noted.
    late: set[int] = _ENDING & args.received
    if not late:
        _stand_again(argv, args.restart if args.ended else 0.0)
    return exits.SIGNALLED + min(late)


def _stand_again(argv: list[str], pause: float) -> NoReturn:
    """Begin again, in a process that is as fresh as the first."""
    time.sleep(pause)
    words = sys.orig_argv
    if sys.argv[1:] != ["elect", *argv]:
        words = [sys.executable, "-m", "fencelock", "elect", *argv]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, words)  # noqa: S606 - ourselves
