"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from fencelock._transport.quorum import Several, several, split
from fencelock._transport.sentinel import Watched
from fencelock.cli import arguments
from fencelock.cli.arguments import Arguments
from fencelock.cli.doctor import checks
from fencelock.cli.doctor.acl import CLUSTER_COMMANDS, MORE, QUORUM_COMMANDS, acl_rule
from fencelock.cli.doctor.health import TROUBLE
from fencelock.cli.doctor.persistence import ALONE, EMBEDDED, NODE
from fencelock.cli.doctor.report import FAIL, Finding
from fencelock.cli.exits import hint_for
from fencelock.cli.output import json_line, visible
from fencelock.cli.session import Session, configured, embedded_chosen
from fencelock.errors import FencelockError


def main(argv: list[str]) -> int:
    """Run the command."""
    made = arguments.parser(
        "doctor",
        "check server, permissions and settings",
        more="Changes nothing and starts\nnothing. Exit status 1 when a check fails",
        example="fencelock doctor --url redis://cache.internal:6379/0",
    )
    arguments.add_server(made)
    args = made.parse_args(argv)
    together = several(args.url, asynchronous=False)
    findings = list(_findings(args, together))
    rule = acl_rule(args.prefix, _more(args, together))
    if args.json:
        checks = [each._asdict() for each in findings]
        json_line({"checks": checks, "acl": rule, "acl_more": MORE})
    else:
        _print(findings, rule)
    return 1 if any(each.level == FAIL for each in findings) else 0


def _findings(args: Arguments, together: Several | None) -> Iterator[Finding]:
    if embedded_chosen(args):
        yield from checks.embedded()
        if not checks.embedded_answers():
            return
    if together is not None:
        yield from _quorum(args, together.labels)
        return
    with Session(args) as session:
        yield from _server(session, EMBEDDED if embedded_chosen(args) else ALONE)


def _server(session: Session, role: str) -> Iterator[Finding]:
    try:
        yield from _watched(session)
        yield from checks.server(session, role)
    except FencelockError as error:
        yield Finding(FAIL, "server", str(error), _advice(error))


def _quorum(args: Arguments, labels: Sequence[str]) -> Iterator[Finding]:
    from fencelock.cli.doctor.quorum import quorum

    with contextlib.ExitStack() as stack:
        each = [argparse.Namespace(**{**vars(args), "url": url}) for url in split(configured(args))]
        sessions = [stack.enter_context(Session(one)) for one in each]
        yield from quorum(list(zip(labels, sessions, strict=True)), partial(_server, role=NODE))


def _more(args: Arguments, together: Several | None) -> Sequence[str]:
    """Return the commands that what is configured needs beside those for one server."""
    if together is not None:
        return QUORUM_COMMANDS
    return CLUSTER_COMMANDS if "+cluster://" in configured(args) else ()


def _advice(error: FencelockError) -> str:
    """Return what can be done; a hint that leads to this command is none."""
    known = TROUBLE.get(getattr(error, "code", ""))
    hint = hint_for(error)
    return known or ("" if "doctor" in hint else hint)


def _watched(session: Session) -> Iterator[Finding]:
    """Check the Sentinels, when it is they who know where the server is."""
    if isinstance(session.port.source, Watched):
        from fencelock.cli.doctor.sentinel import sentinels

        yield sentinels(session.port.source)


def _print(findings: list[Finding], rule: str) -> None:
    node = ""
    for each in findings:
        if each.node != node:
            node = each.node
            print(f"\n{visible(node) or 'all together'}")
        first, *more = each.found.splitlines()
        print(f"{each.level:5} {each.what:12} {visible(first)}")
        for line in more:
            print(f"{'':18} {visible(line)}")
        if each.change:
            print(f"{'':18} -> {visible(each.change)}")
    print(f"\nMinimal ACL rule (fill in user and password):\n  {rule}")
    for use, right in MORE.items():
        print(f"  for {use}: {right}")
