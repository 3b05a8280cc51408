"""From the options of a command to a client of its server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from fencelock._operator import Operator
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._runtime.process import environment_url, user
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final, Self, TypeVar
from fencelock.blocking.client import Client
from fencelock.cli import arguments, collect_garbage
from fencelock.cli.arguments import Arguments
from fencelock.cli.output import say
from fencelock.errors import OutcomeUnknown, ServerUnreachable

if TYPE_CHECKING:
    from logging import Logger

T = TypeVar("T")

# How long a command waits before it tries again to reach a silent server.
PAUSE_SECONDS: Final = 1.0
_ALONE: Final = (
    "no server is configured: this excludes only processes of this user on this host; set"
    " FENCELOCK_URL to a server that all hosts share"
)
# As long as a client waits for its clean-ups when it is closed.
_CLOSING_SECONDS: Final = 1.0


class Session:
    """A command's client, and what an operator may do with it; sends nothing by itself.

    Raises ValueError for a URL or prefix that cannot work.
    """

    def __init__(self, args: Arguments) -> None:
        self.prefix: str = args.prefix
        self.closing_seconds: float = _CLOSING_SECONDS
        self._configured = configured(args)
        self._quiet: bool = getattr(args, "quiet", False)
        more: dict[str, Any] = {}  # only ``run``, ``once`` and ``elect`` have these
        if getattr(args, "replicas", None) is not None:
            more = {"replicas": args.replicas, "replicas_timeout": args.replicas_timeout}
        self.client: Client = Client(args.url, key_prefix=args.prefix, label=user(), **more)
        self.operator: Operator = Operator(self.client)
        if getattr(args, "no_history", True) is False:  # likewise
            self.operator.keep_history()
        _hear_the_library(verbose=args.verbose)
        collect_garbage()

    def url(self) -> str:
        """Return the address by which other processes of this user reach the same server."""
        if self._configured:
            return self._configured
        from fencelock import embedded

        return embedded.url()

    def say_if_alone(self) -> None:
        """Say that other hosts are not excluded when no server is configured.

        For commands without a terminal: cron and services inherit no ``FENCELOCK_URL`` by itself.
        """
        if not self._configured and not self._quiet:
            say(_ALONE)

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for clean-ups, up to 1 s unless a command is in a hurry, and close."""
        self.operator.close(self.closing_seconds)


def patiently(
    args: Arguments, acquire: Callable[..., T], *, began: Callable[[], bool] = lambda: False
) -> T:
    """Return what a call acquires; while the server is away, again within ``--wait``.

    The call gets how long to wait, as ``Lock.acquire`` has it. Not again once a run ``began``.
    """
    until = now() + (args.wait or 0.0)
    options, told = arguments.waiting(args), args.quiet
    while True:
        try:
            return acquire(**options)
        except (ServerUnreachable, OutcomeUnknown) as error:
            if began() or args.no_wait or now() >= until:
                raise
            if not told:
                say(f"{error}; trying again")
            told = True
        time.sleep(min(PAUSE_SECONDS, max(0.0, until - now())))
        options = {"timeout": max(0.0, until - now())}


def configured(args: Arguments) -> str:
    """Return the configured server or servers; empty if the embedded one is meant."""
    return args.url or environment_url() or ""


def _hear_the_library(*, verbose: bool) -> None:
    """Show the library's log only with ``-v``: the commands themselves report what matters."""

    def prepare(logger: Logger) -> None:
        import logging

        logger.propagate = False
        logger.handlers.clear()
        handler = logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()
        handler.setFormatter(logging.Formatter("fencelock: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbose else logging.WARNING)

    log.prepare = prepare
