"""``fencelock once``: run a command on one of many hosts, once a period.

A ``fencelock run`` whose success is remembered: as long as it is, no host runs it again.
"""

from __future__ import annotations

from fencelock.cli import arguments, exits
from fencelock.cli.commands.run import add_tenure, under_supervisor, with_command

EXITS = """\
exit status: the command's own, 128+n when signal n killed it;
  0 it was done before, or another runs it now (-E)    75 not done within --wait (-E)
  76 lease lost, command stopped    69 server unreachable    77 denied    64 usage
  126/127 cannot run CMD"""


def once_command(argv: list[str]) -> int:
    """Run the command unless it was run, or is being run, elsewhere."""
    made = arguments.Parser(
        "once",
        more="When CMD ends with 0\nit is done; after another status, the next host may run it",
        example="fencelock once nightly --within 1h -- ./report.sh\n\n" + EXITS,
    )
    arguments.add_name(made)
    span = arguments.positive_duration
    text = "do not run it again for this long, counted from the start of the run"
    made.add("--within DUR", text, type=span, required=True)
    text = (
        "wait at most this long while another host runs it, and run it if that run fails"
        " (default: do not wait)"
    )
    made.add("-w --wait DUR", text, type=span)
    meaning = "exit status while another host runs it (default: 0, and 75 with --wait)"
    arguments.add_busy_exit(made, meaning)
    add_tenure(made)
    args = with_command(made, argv)
    args.no_wait = args.wait is None
    args.at_least = None
    if args.busy_exit is None:
        args.busy_exit = 0 if args.no_wait else exits.BUSY
    return under_supervisor(args, "OnceRun")
