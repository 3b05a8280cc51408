"""The checks of ``fencelock doctor``, in order.

A user may lack the permission for CONFIG, INFO or ACL: then the check says so, and nothing fails.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from fencelock._io.sources.quorum import QuorumSource, split
from fencelock.cli.arguments import Arguments
from fencelock.cli.doctor.acl import permissions
from fencelock.cli.doctor.clock import ClockCheck
from fencelock.cli.doctor.health import TROUBLE, health, version
from fencelock.cli.doctor.persistence import ALONE, EMBEDDED, NODE, persistence
from fencelock.cli.doctor.probe import Probe
from fencelock.cli.doctor.replication import replication, sentinel
from fencelock.cli.doctor.report import FAIL, OK, Finding
from fencelock.cli.exits import hint_for
from fencelock.cli.session import Session, configured, embedded_chosen
from fencelock.errors import FencelockError

_LOOKS: Final = 5


def findings(args: Arguments, together: QuorumSource | None) -> Iterator[Finding]:
    """Check what is configured: the embedded server, a server, or the nodes of a quorum."""
    if embedded_chosen(args):
        yield from embedded()
        if not _embedded_answers():
            return
    if together is not None:
        yield from _quorum(args, together.labels)
        return
    with Session(args) as session:
        yield from _server(session, EMBEDDED if embedded_chosen(args) else ALONE)


def _server(session: Session, role: str) -> Iterator[Finding]:
    try:
        yield from _watched(session)
        yield from _checks(session, role)
    except FencelockError as error:
        yield Finding(FAIL, "server", str(error), _advice(error))


def _quorum(args: Arguments, labels: Sequence[str]) -> Iterator[Finding]:
    from fencelock.cli.doctor.quorum import quorum

    with ExitStack() as stack:
        each = [argparse.Namespace(**{**vars(args), "url": url}) for url in split(configured(args))]
        sessions = [stack.enter_context(Session(one)) for one in each]
        yield from quorum(list(zip(labels, sessions, strict=True)), partial(_server, role=NODE))


def _advice(error: FencelockError) -> str:
    """Return what can be done; a hint to run this command does not help here."""
    known = TROUBLE.get(getattr(error, "code", ""))
    hint = hint_for(error)
    return known or ("" if "doctor" in hint else hint)


def _watched(session: Session) -> Iterator[Finding]:
    """Check the Sentinels, if they say where the server is."""
    source = session.operator.sentinels
    if source is not None:
        from fencelock.cli.doctor.sentinel import sentinels

        yield sentinels(source)


def _checks(session: Session, role: str) -> Iterator[Finding]:
    """Check a server in its role, one of those in ``persistence``.

    Raises what a lock would raise when it cannot be reached.
    """
    probe = Probe(session)
    info = probe.info()
    clocks = ClockCheck(probe)
    if not info:  # a server that refuses every command raises here
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
    set_back = clocks.backwards(session.prefix)
    if set_back:
        yield set_back


def embedded() -> Iterator[Finding]:
    """Check the embedded server, and whether one may be started here."""
    from fencelock import embedded as room
    from fencelock.embedded.policy import refuse_start

    try:
        refuse_start()
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


def _embedded_answers() -> bool:
    """Return True if an embedded server answers; starts none."""
    from fencelock import embedded as room

    try:
        return room.status().answering
    except (FencelockError, ValueError):
        return False
