"""``fencelock run``: hold a lock while a command runs. This file is its options; see ``runner``.

``once`` and ``elect`` are variants of it, and share what is public here.
"""

from __future__ import annotations

from fencelock.cli import arguments, exits
from fencelock.cli.arguments import Arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import has_terminal
from fencelock.cli.run.supervisor import CommandSpec
from fencelock.cli.run.supervisor_client import SupervisorClient
from fencelock.options import PERMITS_MAX, REPLICAS_TIMEOUT

GRACE = 5.0
_GRACE_OF_TTL = 3
EXITS = """\
exit status: the command's own, 128+n when signal n killed it;
  75 busy (or -E)    76 lease lost, command stopped    69 server unreachable
  77 denied          64 usage                          126/127 cannot run CMD"""


def run_command(argv: list[str]) -> int:
    """Run a command while holding a lock."""
    made = arguments.Parser(
        "run",
        more="The lease is renewed while CMD runs,\nand CMD is stopped before it can end",
        example="fencelock run nightly --no-wait --at-least 10m -- ./backup.sh --all\n\n" + EXITS,
    )
    arguments.add_name(made)
    share = made.group()
    text = "NAME is a semaphore: at most N commands run at a time; all must give the same N"
    slots = arguments.whole("a number of slots: 1 or more", 1, PERMITS_MAX)
    made.add("--slots N", text, type=slots, among=share)
    text = "NAME is a reader/writer lock: run alongside others with --shared"
    made.add("--shared", text, among=share)
    made.add("--exclusive", "NAME is a reader/writer lock: run alone", among=share)
    arguments.add_wait(made)
    meaning = "exit status when the lock is not granted in time (default: %(default)s; 0 skips)"
    arguments.add_busy_exit(made, meaning, exits.BUSY)
    add_tenure(made)
    text = (
        "keep the lock until DUR after the grant, even if CMD ends sooner; fencelock does not"
        " wait for it"
    )
    made.add("--at-least DUR", text, type=arguments.positive_duration)
    return under_supervisor(with_command(made, argv), "CommandRun")


def under_supervisor(args: Arguments, kind: str) -> int:
    """Run the command of these arguments under a supervisor; return the exit status.

    ``kind`` names the class of ``runner`` that does it. The supervisor comes first: it gets ready
    while all else is imported, and is forked from little.
    """
    with SignalHandlers() as signals:
        ttl = args.ttl if args.max_hold is None else min(args.ttl, args.max_hold)
        spec = CommandSpec(
            command=args.command,
            terminal=has_terminal(),
            gentle=args.on_lost != "kill",
            grace=min(args.grace, ttl / _GRACE_OF_TTL),
            ignored=signals.ignored,
        )
        supervisor = SupervisorClient(spec)
        try:
            from fencelock.cli.run import runner

            status: int = getattr(runner, kind)(args, signals, supervisor).go()
            return status
        finally:
            supervisor.close()


def with_command(made: arguments.Parser, argv: list[str]) -> Arguments:
    """Add what all commands with a CMD have, and parse ``[options] NAME -- CMD [ARG ...]``."""
    made.usage = f"{made.prog} [options] NAME -- CMD [ARG ...]"
    arguments.add_label(made)
    arguments.add_server(made)
    replicas = arguments.whole("a number of replicas: 1 or more", 1)
    text = "a grant or renewal counts only once N replicas have acknowledged it"
    made.add("--replicas N", text, type=replicas)
    text = f"how long the replicas may take (default: {REPLICAS_TIMEOUT:g}s)"
    span = arguments.positive_duration
    made.add("--replicas-timeout DUR", text, type=span, default=REPLICAS_TIMEOUT)
    text = "keep no long wait, lost lease or failed run in the history"
    made.add("--no-history", text)
    arguments.add_quiet(made)
    at = argv.index("--") if "--" in argv else len(argv)
    words, command = argv[:at], argv[at + 1 :]
    if at == len(argv) and not {"-h", "--help"}.intersection(words):
        raise exits.UsageError("-- is missing before the command", hint=made.usage)
    args = made.parse_args(words)
    if not command:
        raise exits.UsageError("no command after --", hint=made.usage)
    args.command = command
    return args


def add_tenure(made: arguments.Parser) -> None:
    """Add how long the lock is held, and what its loss does to the command."""
    arguments.add_ttl(made, renewed=True)
    text = "stop CMD before this long has passed"
    made.add("--max-hold DUR", text, type=arguments.positive_duration)
    text = (
        "what happens to CMD when the lease is lost: TERM and then KILL, KILL at once, or only"
        " a message (default: %(default)s)"
    )
    made.add("--on-lost {term,kill,warn}", text, default="term")
    add_grace(made)


def add_grace(made: arguments.Parser) -> None:
    """Add how long the command gets to end."""
    text = f"from TERM to KILL, at most a third of the ttl (default: {GRACE:g}s)"
    made.add("--grace DUR", text, default=GRACE)
