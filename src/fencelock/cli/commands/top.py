"""``fencelock top``: the locks that are waited for most, live in a terminal."""

from __future__ import annotations

import sys

from fencelock.cli import arguments
from fencelock.cli.exits import UsageError
from fencelock.cli.session import Session


def top_command(argv: list[str]) -> int:
    """Show locks on the whole terminal until q is pressed."""
    made = arguments.Parser(
        "top",
        more="Keys sort, filter, look into one\nlock, and revoke it with a reason. It needs"
        " the extra fencelock[top]",
        example="fencelock top 'orders:*'",
    )
    made.add("glob GLOB", "names (default: all)", nargs="?", default="*")
    text = "how often to ask the server (default: 1s)"
    made.add("--every DUR", text, type=arguments.positive_duration, default=1.0)
    args = made.parse_with_server(argv)
    if args.json:
        raise UsageError("top is for people", hint="fencelock ls --watch --json")
    try:
        import textual
    except ImportError:
        raise UsageError("top needs textual", hint="install fencelock[top]") from None
    del textual
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("top needs a terminal", hint="fencelock ls --watch")

    from fencelock.cli._top.app import TopApp

    with Session(args) as session:
        session.closing_seconds = 0.0
        app = TopApp(session, args.glob, every=args.every)
        app.run()
    return app.return_code or 0
