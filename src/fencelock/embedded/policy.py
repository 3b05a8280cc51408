"""Decide whether an embedded server may be started here automatically.

An embedded server serves only the processes that share it. Where processes that need to exclude
each other probably do not share it, starting one would silently give every lock to several holders.
There it must be allowed explicitly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from fencelock.errors import ServerUnreachable

SWITCH = "FENCELOCK_EMBEDDED"

_MARKS = ("/.dockerenv", "/run/.containerenv")


def refuse_start(
    environ: Mapping[str, str] = os.environ,
    exists: Callable[[str], bool] = os.path.exists,
    system: str = os.name,
) -> None:
    """Return if an embedded server may be used here.

    Raises:
        ServerUnreachable: on Windows; when ``FENCELOCK_EMBEDDED=0``; inside a container unless
            ``FENCELOCK_EMBEDDED=1``.
        ValueError: ``FENCELOCK_EMBEDDED`` is something else than 0, 1 or empty.
    """
    refuse_system(system)
    switch = environ.get(SWITCH, "")
    if switch not in ("", "0", "1"):
        raise ValueError(f"{SWITCH} must be 0 or 1, not {switch!r}")
    if switch == "0":
        raise ServerUnreachable(
            f"no server is configured, and {SWITCH}=0 forbids starting one: set FENCELOCK_URL"
        )
    marks = [mark for mark in _MARKS if exists(mark)]
    if environ.get("KUBERNETES_SERVICE_HOST"):
        marks = ["KUBERNETES_SERVICE_HOST is set"]
    if marks and switch != "1":
        raise ServerUnreachable(
            f"no server is configured, and this is a container ({marks[0]}): two containers would"
            " each start a server of their own and not exclude each other. Set FENCELOCK_URL to"
            " a server "
            f"that all of them share, or {SWITCH}=1 when this container is the only one."
        )


def refuse_system(system: str = os.name) -> None:
    """Return if this system has what an embedded server needs: a Unix socket, ``flock``, users.

    Raises:
        ServerUnreachable: on Windows.
    """
    if system != "posix":
        raise ServerUnreachable(
            "no server is configured, and on this system none can be started: set FENCELOCK_URL"
        )
