"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from fencelock._transport.sentinel import Watched
from fencelock.cli import arguments, diagnosis
from fencelock.cli.answering import TROUBLE
from fencelock.cli.arguments import Arguments
from fencelock.cli.exits import hint_for
from fencelock.cli.finding import FAIL, Finding
from fencelock.cli.output import json_line, visible
from fencelock.cli.rights import MORE, acl_rule
from fencelock.cli.session import Session, embedded_chosen, is_cluster
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
    rule = acl_rule(args.prefix, cluster=is_cluster(args))
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
    with Session(args) as session:
        try:
            yield from _watched(session)
            yield from diagnosis.server(session)
        except FencelockError as error:
            yield Finding(FAIL, "server", str(error), _advice(error))


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
    for each in findings:
        first, *more = each.found.splitlines()
        print(f"{each.level:5} {each.what:12} {visible(first)}")
        for line in more:
            print(f"{'':18} {visible(line)}")
        if each.change:
            print(f"{'':18} -> {visible(each.change)}")
    print(f"\nThe smallest permissions that do (put in a name and a password):\n  {rule}")
    for use, right in MORE.items():
        print(f"  for {use}: {right}")
