"""``fencelock graph``: who blocks whom, as a tree."""

from __future__ import annotations

from fencelock._core.look.graph import around, blocks, cycles
from fencelock.cli import arguments
from fencelock.cli.output import json_line, say
from fencelock.cli.session import Session
from fencelock.cli.wait_tree import print_tree, summary

_WAITERS = 1000


def graph_command(argv: list[str]) -> int:
    """Print who blocks whom; see the module."""
    made = arguments.Parser(
        "graph",
        summary="show who blocks whom: below each thread or task, those that wait for it",
        example="fencelock graph orders:42",
        more="A cycle is a deadlock if it lasts",
    )
    made.add("name NAME", "only what has to do with this lock (default: all)", nargs="?")
    made.add("--check", "for monitoring: exit status 1 when there is a cycle")
    args = made.parse_with_server(argv)
    with Session(args) as session:
        found = blocks(session.client.locks(waiters=_WAITERS))
    if args.name is not None:
        found = around(found, args.name)
    circles = cycles(found)
    if args.json:
        shown = [[summary(block) for block in circle] for circle in circles]
        json_line({"waits": [*map(summary, found)], "cycles": shown})
    elif found:
        print_tree(found)
    else:
        say("no waiters" if args.name is None else f"no waiters that have to do with {args.name!r}")
    return 1 if args.check and circles else 0
