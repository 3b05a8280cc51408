"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from fencelock._transport.quorum import several, split
from fencelock._transport.sentinel import Watched
from fencelock.cli import arguments, diagnosis
from fencelock.cli.answering import TROUBLE
from fencelock.cli.arguments import Arguments
from fencelock.cli.exits import hint_for
from fencelock.cli.finding import FAIL, OK, WARN, Finding
from fencelock.cli.output import json_line, visible
from fencelock.cli.rights import CLUSTER_COMMANDS, MORE, QUORUM_COMMANDS, acl_rule
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
    findings = list(_findings(args))
    rule = acl_rule(args.prefix, _more(args))
    if args.json:
        checks = [each._asdict() for each in findings]
        json_line({"checks": checks, "acl": rule, "acl_more": MORE})
    else:
        _print(findings, rule)
    return 1 if any(each.level == FAIL for each in findings) else 0


def _findings(args: Arguments) -> Iterator[Finding]:
    if embedded_chosen(args):
        yield from diagnosis.embedded()
        if not diagnosis.embedded_answers():
            return
    together = several(args.url, asynchronous=False)
    if together is None:
        with Session(args) as session:
            for each in _server(session):
                yield _of_embedded(each) if embedded_chosen(args) else each
    else:
        yield from _quorum(args, together.labels)


def _of_embedded(found: Finding) -> Finding:
    """Return a finding for a server whose users are all on its machine."""
    if (found.what, found.level) != ("persistence", WARN) or "append-only" not in found.found:
        return found
    what = found.found.partition(";")[0]
    return Finding(
        OK, found.what, f"{what}: only its machine can forget, and takes all holders along"
    )


def _server(session: Session, *, one_of_many: bool = False) -> Iterator[Finding]:
    try:
        yield from _watched(session)
        yield from diagnosis.server(session, one_of_many=one_of_many)
    except FencelockError as error:
        yield Finding(FAIL, "server", str(error), _advice(error))


def _quorum(args: Arguments, labels: Sequence[str]) -> Iterator[Finding]:
    from fencelock.cli.diagnosis_quorum import quorum

    with contextlib.ExitStack() as stack:
        each = [argparse.Namespace(**{**vars(args), "url": url}) for url in split(configured(args))]
        sessions = [stack.enter_context(Session(one)) for one in each]
        yield from quorum(
            list(zip(labels, sessions, strict=True)), partial(_server, one_of_many=True)
        )


def _more(args: Arguments) -> Sequence[str]:
    """Return the commands that what is configured needs beside those for one server."""
    if several(args.url, asynchronous=False):
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
        from fencelock.cli.diagnosis_sentinel import sentinels

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
    print(f"\nThe smallest permissions that do (put in a name and a password):\n  {rule}")
    for use, right in MORE.items():
        print(f"  for {use}: {right}")
