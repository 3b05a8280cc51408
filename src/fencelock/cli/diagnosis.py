"""What ``fencelock doctor`` looks at, in order.

A server may forbid to be asked (CONFIG, INFO, ACL): then the check says so, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencelock.cli.answering import answering, version
from fencelock.cli.clocks import Clocks
from fencelock.cli.finding import FAIL, OK, Finding
from fencelock.cli.following import following, sentinel
from fencelock.cli.keeping import keeping
from fencelock.cli.questions import Questions
from fencelock.cli.rights import rights
from fencelock.cli.session import Session
from fencelock.errors import FencelockError

_LOOKS: Final = 5


def server(session: Session, role: str) -> Iterator[Finding]:
    """Check a server in its role, of those in ``keeping``.

    Raises what a lock would raise when it cannot be reached.
    """
    ask = Questions(session)
    info = ask.info()
    clocks = Clocks(ask)
    if not info:  # when it refuses us altogether, that is all there is to say
        clocks.look(1)
    yield version(info)
    if "sentinel" in {info.get("redis_mode"), info.get("server_mode")}:  # Redis, Valkey
        yield from sentinel(ask)
        return
    clocks.look(_LOOKS)
    yield clocks.reach()
    yield from rights(ask, session)
    yield from following(ask, info, session.url())
    yield from keeping(ask, info, role)
    yield from answering(ask, info)
    clocks.look(_LOOKS)
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
