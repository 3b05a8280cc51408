"""From ``--url`` and ``--prefix`` to a port and keys."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from fencelock import handles, options
from fencelock._core.acquire import acquire
from fencelock._core.hold import Hold, Taker
from fencelock._core.keys import LockKeys
from fencelock._core.want import Want
from fencelock._ports.blocking import CLOSE_SECONDS, BlockingPort, run_blocking
from fencelock._ports.choose import port_for
from fencelock.cli import started
from fencelock.cli.arguments import Arguments
from fencelock.errors import LeaseLost, NotHeld
from fencelock.lease import BaseLease
from fencelock.log import log
from fencelock.options import Queue
from fencelock.quorums import refuse

if TYPE_CHECKING:
    from logging import Logger

# A renewal waits no longer than this for an answer; how often to look whether it has ended.
_RENEWAL_SECONDS: Final = 1.1
_PAUSE: Final = 0.002


class Session:
    """One command's way to the server; sends nothing before it is asked to.

    Raises ValueError for a URL or prefix that cannot work.
    """

    def __init__(self, args: Arguments) -> None:
        self.prefix: str = args.prefix
        self.closing_seconds: float = CLOSE_SECONDS
        self._configured = configured(args)
        self._defaults = handles.defaults(
            key_prefix=args.prefix,
            ttl=options.TTL,
            label=None,
            server_timeout=options.PATIENCE,
        )
        # Only commands that hold while another command runs have the option.
        wanted = getattr(args, "replicas", None)
        self.port: BlockingPort = port_for(
            args.url,
            prefix=args.prefix,
            patience=self._defaults.patience,
            node_timeout=options.NODE_TIMEOUT,
            replicas=wanted and options.acknowledgement(wanted, args.replicas_timeout),
        )
        self._defaults = self._defaults._replace(
            quorum=bool(self.port.nodes), server=self.port.label
        )
        _hear_the_library(verbose=args.verbose)
        started()

    def keys(self, name: str) -> LockKeys:
        """Return the keys of a lock."""
        return LockKeys(self.prefix, options.lock_name(name))

    def settings(
        self,
        *,
        ttl: float,
        renew: bool,
        label: str | None = None,
        max_hold: float | None = None,
        on_lost: object = None,
    ) -> handles.Settings:
        """Return checked options of a lock; ValueError for one that cannot work."""
        return handles.settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=None,
            timeout=None,
            wait=Queue(),
            on_lost=on_lost,
            label=label or user(),
            cancels=False,
        )

    def want(
        self,
        name: str,
        *,
        unit: str,
        ttl: float,
        renew: bool,
        label: str | None = None,
    ) -> Want:
        """Return a fresh request for a lock; ValueError for an option that cannot work."""
        return self.request(name, unit, self.settings(ttl=ttl, renew=renew, label=label))

    def request(
        self,
        name: str,
        unit: str,
        chosen: handles.Settings,
        *,
        slots: int | None = None,
        side: Literal["read", "write"] | None = None,
    ) -> Want:
        """Return a fresh request for a lock.

        With ``slots`` for a permit of a semaphore, with ``side`` for that one of a reader/writer
        lock.
        """
        keys = self.keys(name)
        if slots is not None:
            self.refuse_quorum("semaphore")
            from fencelock.permits import Permits

            permits = Permits(keys, chosen, BaseLease, slots, bounded=True)
            return permits.want_permits(self.port, unit, 1)
        if side is not None:
            from fencelock._core.shares import READ, WRITE
            from fencelock.sides import Side, Sides

            permits_of = {"read": READ, "write": WRITE}
            one = Side(keys, chosen, BaseLease, Sides(), permits_of[side], reentrant=False)
            return one.want_side(self.port, unit, None)
        return handles.Holds(keys, chosen, BaseLease).want(self.port, unit)

    def refuse_quorum(self, what: str) -> None:
        """Raise ValueError for what a quorum cannot do, when there is one."""
        refuse(self._defaults.quorum, what)

    def take(
        self, want: Want, patience: float | None, lease_type: type[BaseLease] = BaseLease
    ) -> Hold | None:
        """Take a lock and have its lease minded; None when it was not granted in time."""
        return run_blocking(acquire(self.port, want, patience, Taker(lease_type)))

    def adopt(self, name: str, holder: str, ttl: float) -> Hold:
        """Return the hold of another process, known by its holder id; ask the server for more."""
        want = self.want(name, unit="", ttl=ttl, renew=False)
        want.waiter = want.holder = _holder_id(holder)
        if self.port.nodes:
            from fencelock._core.quorum_adopt import adopted

            return adopted(self.port, want, ttl)
        deadline = self.port.now() + ttl
        lease = BaseLease(name, 0, want.holder, ttl, deadline, self.port.now)
        return Hold(want, lease, self.port.now())

    def leave(self, hold: Hold) -> None:
        """Leave a lease to itself: nobody renews or releases it from now on."""
        self.settle(hold)
        hold.open = False

    def settle(self, hold: Hold) -> None:
        """Take a hold out of the background's hands, and let a renewal that is under way end.

        It would undo what the caller does to the lease next.
        """
        port = self.port
        waits = port.flows.confirm_seconds(port)
        give_up_at = port.now() + _RENEWAL_SECONDS + waits
        while port.now() < give_up_at:
            with port.mutex():
                before = port.book.holds
                port.book.discard(hold)
                if port.book.holds < before or hold.told:
                    break
            time.sleep(_PAUSE)

    def url(self) -> str:
        """Return the address that other processes of this user reach the same server by."""
        if self._configured:
            return self._configured
        from fencelock import embedded

        return embedded.url()

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for clean-ups, up to 1 s unless a command is in a hurry, and close."""
        self.port.shut(self.closing_seconds)


def embedded_chosen(args: Arguments) -> bool:
    """Return True if no server is configured, so that the embedded one is meant."""
    return not configured(args)


def configured(args: Arguments) -> str:
    """Return what the configured server is named by; empty when none is configured."""
    return args.url or os.environ.get("FENCELOCK_URL") or ""


def user() -> str:
    """Return who runs this, for people to read."""
    name = os.environ.get("SUDO_USER") or os.environ.get("LOGNAME") or os.environ.get("USER")
    if name:
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _holder_id(text: str) -> bytes:
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise ValueError(f"--holder is not what `fencelock acquire` printed: {text!r}")
    return text.encode()


def _hear_the_library(*, verbose: bool) -> None:
    """Keep the library's log to ``-v``: the commands tell what matters themselves."""

    def prepare(logger: Logger) -> None:
        import logging

        logger.propagate = False
        logger.handlers.clear()
        handler = logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()
        handler.setFormatter(logging.Formatter("fencelock: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbose else logging.WARNING)

    log.prepare = prepare


def not_held(error: LeaseLost) -> NotHeld:
    """Return the error for a holder id that holds nothing any more."""
    why = f"revoked: {error.detail}" if error.reason == "revoked" else "it expired or was released"
    return NotHeld(
        f"{error.name!r} is not held by that holder id any more ({why})",
        name=error.name,
        server=error.server,
    )
