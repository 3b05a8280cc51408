"""The questions of ``fencelock doctor``, in order, and the one that asks them.

A question comes after those whose answers it relies on: the two about the clock need the samples
of "reachable". A user may lack a permission: then the answer says so, and nothing fails. Only a
server that serves no command ends the questions to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final, TypeVar

from fencelock._io.sources.resolve import QuorumSource, split
from fencelock._io.wire import IN_PYTHON
from fencelock.cli.arguments import Arguments
from fencelock.cli.doctor import acl, beside, health, quorum, relatives
from fencelock.cli.doctor.report import FAIL, OK, WARN, Answer, Finding, unknown
from fencelock.cli.doctor.server import ALONE, EMBEDDED, NODE, Server
from fencelock.cli.exits import hint_for
from fencelock.cli.session import Session, configured
from fencelock.errors import FencelockError

Subject = TypeVar("Subject")
# What is asked, and the function that reads and judges it.
Question = tuple[str, Callable[[Subject], Answer]]


def _informed(answer: Callable[[Server], Answer]) -> Callable[[Server], Answer]:
    """Return what answers "unknown" to a user who may not read INFO."""
    return lambda server: answer(server) if server.info else unknown("+info")


FIRST: Final[Sequence[Question[Server]]] = (
    ("sentinels", beside.agreement),
    ("server", health.version),
    ("kind", relatives.kind),
)
OF_A_SENTINEL: Final[Sequence[Question[Server]]] = (("role", beside.itself),)
OF_A_SERVER: Final[Sequence[Question[Server]]] = (
    ("reachable", health.reachable),
    ("permissions", acl.permissions),
    ("role", _informed(beside.role)),
    ("replica", beside.replicas),
    ("min-replicas", beside.min_replicas),
    ("cluster", beside.cluster),
    ("nodes", beside.nodes),
    ("source", beside.source),
    ("sentinels", beside.unused),
    ("eviction", _informed(health.eviction)),
    ("memory", _informed(health.memory)),
    ("persistence", _informed(health.persistence)),
    ("clients", health.clients),
    ("stalls", health.stalls),
    ("clock", health.distance),
    ("clock jumps", health.jumps),
    ("clock set back", health.set_back),
)
OF_A_NODE: Final[Sequence[Question[Server]]] = (("voting", quorum.voting),)
OF_A_QUORUM: Final[Sequence[Question[quorum.Quorum]]] = (
    ("majority", quorum.majority),
    ("independence", quorum.independence),
    ("votes", quorum.restarts),
)


def ask(questions: Sequence[Question[Subject]], subject: Subject) -> Iterator[Finding]:
    """Ask one question after the other."""
    for what, answer in questions:
        for finding in answer(subject):
            yield finding._replace(what=finding.what or what, node=getattr(subject, "label", ""))


def findings(args: Arguments, together: QuorumSource | None) -> Iterator[Finding]:
    """Ask what is configured: the embedded server, a server, or the nodes of a quorum."""
    yield _python()
    if together is not None:
        yield from _quorum(args, together.labels)
        return
    role = ALONE if configured(args) else EMBEDDED
    if role == EMBEDDED:
        finding, answering = _embedded()
        yield finding
        if not answering:
            return
    with Session(args) as session:
        yield from _server(Server(session, role))


def _python() -> Finding:
    """Tell which Python this is, and what parses replies in it."""
    name, version = sys.implementation.name, sys.version.split()[0]
    if not IN_PYTHON:
        return Finding(OK, "python", f"{name} {version}; hiredis parses replies")
    found = f"{name} {version}; replies are parsed in Python, as {IN_PYTHON}"
    if name == "cpython" and "GIL" not in IN_PYTHON:
        return Finding(WARN, "python", found, "install hiredis 3.2 or newer: it is quicker")
    return Finding(OK, "python", found)


def _server(server: Server) -> Iterator[Finding]:
    """Ask one server; one that cannot be used tells what a lock would raise, and what to do."""
    try:
        yield from ask(FIRST, server)
        itself = "sentinel" in {server.info.get("redis_mode"), server.info.get("server_mode")}
        yield from ask(OF_A_SENTINEL if itself else OF_A_SERVER, server)  # Redis, Valkey
    except FencelockError as error:
        hint = hint_for(error)
        advice = "" if "doctor" in hint else hint  # to run this command does not help here
        change = health.TROUBLE.get(getattr(error, "code", ""), advice)
        yield Finding(FAIL, "server", str(error), change, server.label)


def _quorum(args: Arguments, labels: Sequence[str]) -> Iterator[Finding]:
    """Ask every node as a single server, then all of them together."""
    answering: list[Server] = []
    with ExitStack() as stack:
        for url, label in zip(split(configured(args)), labels, strict=True):
            one = type(args)(**{**vars(args), "url": url})
            node = Server(stack.enter_context(Session(one)), NODE, label)
            yield from _server(node)
            try:
                yield from ask(OF_A_NODE, node)
            except FencelockError:
                continue  # the questions to the server told it
            answering.append(node)
        yield from ask(OF_A_QUORUM, quorum.Quorum(answering, labels))


def _embedded() -> tuple[Finding, bool]:
    """Ask whether the embedded server runs or may be started here; return also if it answers."""
    from fencelock import embedded
    from fencelock.embedded.policy import refuse_start

    answering = False
    level, found, change = OK, "", ""
    try:
        status = embedded.status()
        answering = status.answering
        refuse_start()
        if status.running and not answering:
            level, found = FAIL, f"is running but does not answer (pid {status.pid})"
            change = f"see {status.log}; `fencelock server stop` ends it"
        elif status.running:
            found = f"running in {status.directory} (pid {status.pid})"
        else:
            found = f"not running; the first lock starts {embedded.find_binary()}"
    except (FencelockError, ValueError) as error:
        level, found = FAIL, str(error)
    return Finding(level, "embedded", found, change), answering
