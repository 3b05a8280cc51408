"""``fencelock server``: start, stop or look at the embedded server."""

from __future__ import annotations

import dataclasses

from fencelock import embedded
from fencelock.cli import arguments
from fencelock.cli.exits import UNREACHABLE
from fencelock.cli.output import facts, json_line, say
from fencelock.errors import ServerUnreachable


def server_command(argv: list[str]) -> int:
    """Start, stop or look at the embedded server."""
    made = arguments.Parser(
        "server",
        more="It is the one that all your\nprocesses on this machine share when no server is"
        " configured. Its first user starts it too",
        example="fencelock server status",
    )
    made.add(
        "action start|stop|status|url",
        "status: exit status 0 when it answers, 69 when not; url: its address, started or not",
        choices=("start", "stop", "status", "url"),
    )
    args = made.parse_args(argv)
    if args.action == "status":
        return _status(as_json=args.json)
    if args.action == "stop":
        stopped = embedded.stop()
        if args.json:
            json_line({"stopped": stopped})
        elif not stopped:
            say("no embedded server was running")
        return 0
    url = embedded.ensure() if args.action == "start" else embedded.url()
    if args.json:
        json_line({"url": url})
    else:
        print(url)
    return 0


def _status(*, as_json: bool) -> int:
    status = embedded.status()
    if as_json:
        json_line(dataclasses.asdict(status))
    else:
        state = "running" if status.answering else "not answering" if status.running else "stopped"
        facts(
            {
                "state": state,
                "pid": str(status.pid or ""),
                "version": status.version,
                "program": status.binary,
                "url": status.url,
                "directory": status.directory,
                "log": status.log,
            }
        )
        if not status.running and not status.binary:
            try:
                embedded.find_binary()
            except ServerUnreachable as error:
                say(str(error).partition("\n")[0])
    return 0 if status.answering else UNREACHABLE
