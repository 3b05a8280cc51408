"""``fencelock dashboard``: a page that shows the locks of a server, live."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from fencelock.cli import arguments
from fencelock.cli.arguments import Arguments
from fencelock.cli.exits import UsageError
from fencelock.cli.output import json_line, say
from fencelock.cli.session import Session
from fencelock.dashboard.access import (
    LOOPBACK,
    Access,
    checked_host,
    checked_token,
    is_loopback,
    is_wildcard,
    made_token,
)
from fencelock.errors import FencelockError

PORT: Final = 8321
_TOKEN: Final = "FENCELOCK_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable
_READ_TOKEN: Final = "FENCELOCK_DASHBOARD_READ_TOKEN"  # noqa: S105 - as above


def dashboard_command(argv: list[str]) -> int:
    """Show the locks of a server on a page in the browser."""
    args = _parsed(argv)
    access = _access(args)
    with Session(args) as session:
        server = _server(session, access)
        with _listening(args.host, args.port) as listener:
            _announce(args, access, listener)
            try:
                session.client.locks(names=["any"])
            except FencelockError as error:
                say(f"{error}: the page shows no locks until the server answers")
            server.run(sockets=[listener])
    return 0


def _parsed(argv: list[str]) -> Arguments:
    made = arguments.Parser(
        "dashboard",
        more="It is read-only, unless you\nadd --allow-revoke, and only this machine can reach"
        " it, unless you add --host",
        example="fencelock dashboard --url redis://localhost:6379/0",
    )
    text = (
        "the address to listen on (default: %(default)s). If others can reach it, reading"
        " needs a token, too"
    )
    made.add("--host ADDRESS", text, default="127.0.0.1")
    text = "the port to listen on; 0: any that is free (default: %(default)s)"
    port = arguments.whole("a port: 0 to 65535", 0, 65535)
    made.add("--port N", text, type=port, default=PORT)
    text = "a further host name, without port, by which browsers may reach it; may be repeated"
    made.add("--allow-host NAME", text, action="append", default=[])
    made.add("--allow-revoke", "let those that have the token revoke locks")
    text = f"the token for revoking (default: {_TOKEN}, else a fresh one is printed)"
    made.add("--token-file FILE", text)
    text = f"a token that reading needs, too (default: {_READ_TOKEN}, else none on this machine)"
    made.add("--read-token-file FILE", text)
    return made.parse_with_server(argv)


def _access(args: Arguments) -> Access:
    """Return who may do what, from options and environment; UsageError for what cannot be right."""
    if args.token_file and not args.allow_revoke:
        hint = "--read-token-file protects what is only read"
        raise UsageError("--token-file is for revoking: add --allow-revoke", hint=hint)
    token = None
    if args.allow_revoke:
        token = _token("--token-file", args.token_file, _TOKEN) or made_token()
    read = _token("--read-token-file", args.read_token_file, _READ_TOKEN)
    if read is None and not is_loopback(args.host):
        read = token or made_token()
    if is_wildcard(args.host) and not args.allow_host:
        hint = "--allow-host NAME, as it stands in the browser's address bar"
        raise UsageError(
            f"--host {args.host!r} means any address: say which name is right", hint=hint
        )
    own = () if is_wildcard(args.host) else (args.host,)
    hosts = LOOPBACK | {checked_host(each) for each in (*own, *args.allow_host)}
    return Access(hosts, read, token)


def _token(option: str, path: str | None, variable: str) -> str | None:
    """Return a token from a file or the environment, or None."""
    if path is None:
        given = os.environ.get(variable)
        return checked_token(variable, given) if given else None
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would slow the start
            return checked_token(f"the token of {option}", file.read())
    except OSError as error:
        raise UsageError(f"{option} {path!r} cannot be read: {error.strerror}") from None


def _server(session: Session, access: Access) -> Any:
    """Return what answers until a signal comes."""
    try:
        import uvicorn

        from fencelock.dashboard._connections import BoundedConnection
        from fencelock.dashboard.app import make_app
    except ImportError as error:
        raise UsageError(
            f"the dashboard needs Starlette and uvicorn, and {error.name} is not installed",
            hint="install fencelock[dashboard]",
        ) from None
    from fencelock import __version__
    from fencelock.dashboard.feed import ServerSource

    config = uvicorn.Config(
        make_app(ServerSource(session.client), access, __version__, say),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # an address that a client may claim is not noted
        lifespan="off",
        ws="none",
        http=BoundedConnection,
        limit_concurrency=256,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; UsageError when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "choose another with --port" if port else ""
        raise UsageError(f"cannot listen on {host}, port {port}: {reason}", hint=hint) from None


def _announce(args: Arguments, access: Access, listener: socket.socket) -> None:
    """Print the address, with the token after the ``#``, which browsers send to no server."""
    port = listener.getsockname()[1]
    name = args.allow_host[0] if is_wildcard(args.host) else args.host
    url = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
    token = access.token or access.read_token
    address = f"{url}#token={token}" if token else url
    if args.json:
        json_line({"url": url, "token": token, "revoke": access.may_revoke})
    else:
        print(address, flush=True)
        say("with the token, locks can be revoked" if access.may_revoke else "it is read-only")
    if not is_loopback(args.host):
        say("others can reach it, and nothing is encrypted: put a proxy with TLS before it")
