"""Connections with a redis-py or valkey-py client's own settings: TLS, credentials, Sentinel.

The client's connection class finds the server, shakes hands and authenticates. Then we take its
socket over and read it under our deadlines, without the command layer and its hidden retries.
redis-py has no public way to hand a socket over; ``_sock`` has had this name in every release from
2.0 to 8, and in valkey-py.
"""

from __future__ import annotations

import socket
from typing import Any

from fencelock._core.types import NoReply
from fencelock._io.bounded_call import within
from fencelock._io.connect import refused
from fencelock._io.sources.kinds import Cloned, silence
from fencelock._io.wire import ReplyError, server_error
from fencelock._runtime.clock import now
from fencelock.errors import FencelockError

# Settings of a pool's connections that a private connection must not have.
DROPPED = (
    "himport_registry",
    "maint_notifications_pool_handler",
    "maint_notifications_config",
    "orig_host_address",
    "orig_socket_timeout",
    "orig_socket_connect_timeout",
    "event_dispatcher",
    "cache",
    "cache_config",
    "command_packer",
)


def private_settings(cloned: Cloned, until: float) -> dict[str, Any]:
    """Return the settings of a private connection: RESP3, no retry, bounded by ``until``."""
    left = max(0.001, until - now())
    kept = {key: value for key, value in cloned.settings.items() if key not in DROPPED}
    return kept | {
        "protocol": 3,
        "socket_timeout": left,
        "socket_connect_timeout": left,
        "retry": None,
        "retry_on_timeout": False,
        "retry_on_error": [],
        "health_check_interval": 0,
        "client_name": None,  # see ``quiet``
        "decode_responses": False,
    }


def quiet(theirs: Any) -> Any:
    """Return a connection that does not send its name: ``GREETING`` does, without a permission.

    CLIENT SETNAME and SETINFO would need two more permissions than locks do.
    """
    theirs.lib_name = theirs.lib_version = theirs.driver_info = None
    return theirs


def failure(cloned: Cloned, error: Exception) -> Exception:
    """Return what a client's exception means while connecting."""
    if isinstance(error, (FencelockError, NoReply)):
        return error
    name = type(error).__name__
    if "Authentication" in name or "NoPermission" in name or "Authorization" in name:
        code = "WRONGPASS" if "Authentication" in name else "NOPERM"
        return server_error(ReplyError(f"{code} {error}"))
    if "BusyLoading" in name:
        return server_error(ReplyError(f"LOADING {error}"))
    if "max number of clients" in str(error):
        return server_error(ReplyError(str(error)))
    if "Timeout" in name or isinstance(error, TimeoutError):
        return NoReply(silence(cloned), sent=False)
    return refused(cloned.label, OSError(str(error)))


def _close(theirs: Any) -> None:
    theirs.disconnect()


def connect(cloned: Cloned, until: float) -> socket.socket:
    """Connect a socket as the client would; NoReply or a ServerError when it cannot."""
    key = ("connection", id(cloned.settings))

    def open_theirs() -> Any:
        theirs = quiet(cloned.connection_class(**private_settings(cloned, until)))
        try:
            theirs.connect()
        except BaseException:
            _close(theirs)  # it closes itself after some errors only
            raise
        return theirs

    try:
        # In a thread: a name, or a credential provider, may take longer than there is time.
        theirs = within(until, key, open_theirs, name="fencelock-dial", dispose=_close)
        sock: socket.socket = theirs._sock  # noqa: SLF001 - the client's library has no other way
    except Exception as error:
        raise failure(cloned, error) from error
    theirs._sock = None  # noqa: SLF001 - else its end would close ours
    sock.settimeout(None)
    return sock
