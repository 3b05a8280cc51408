"""What ``fencelock doctor`` looks at, in order.

A server may forbid to be asked (CONFIG, INFO, ACL): then the check says so, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencelock.cli.doctor.acl import permissions
from fencelock.cli.doctor.clock import ClockCheck
from fencelock.cli.doctor.health import health, version
from fencelock.cli.doctor.persistence import persistence
from fencelock.cli.doctor.probe import Probe
from fencelock.cli.doctor.replication import replication, sentinel
from fencelock.cli.doctor.report import FAIL, OK, Finding
from fencelock.cli.session import Session
from fencelock.errors import FencelockError

_LOOKS: Final = 5


def server(session: Session, role: str) -> Iterator[Finding]:
    """Check a server in its role, of those in ``keeping``.

    Raises what a lock would raise when it cannot be reached.
    """
    probe = Probe(session)
    info = probe.info()
    clocks = ClockCheck(probe)
    if not info:  # when it refuses us altogether, that is all there is to say
        clocks.sample(1)
    yield version(info)
    if "sentinel" in {info.get("redis_mode"), info.get("server_mode")}:  # Redis, Valkey
        yield from sentinel(probe)
        return
    clocks.sample(_LOOKS)
    yield clocks.reach()
    yield from permissions(probe, session)
    yield from replication(probe, info, session.url())
    yield from persistence(probe, info, role)
    yield from health(probe, info)
    clocks.sample(_LOOKS)
    yield from clocks.findings()
    behind = clocks.backwards(session.prefix)
    if behind:
        yield behind


def embedded() -> Iterator[Finding]:
    """Check the server that would start by itself, and whether it may."""
    from fencelock import embedded as room
    from fencelock.embedded.permit import permit

    try:
        permit()
        status = room.status()
        if status.running and not status.answering:
            change = f"see {status.log}; `fencelock server stop` ends it"
            yield Finding(
                FAIL, "embedded", f"is running but does not answer (pid {status.pid})", change
            )
        elif status.running:
            yield Finding(OK, "embedded", f"running in {status.directory} (pid {status.pid})")
        else:
            binary = room.find_binary()
            yield Finding(OK, "embedded", f"not running; the first lock starts {binary}")
    except (FencelockError, ValueError) as error:
        yield Finding(FAIL, "embedded", str(error))


def embedded_answers() -> bool:
    """Return True if there is an embedded server to look at; starts none."""
    from fencelock import embedded as room

    try:
        return room.status().answering
    except (FencelockError, ValueError):
        return False
