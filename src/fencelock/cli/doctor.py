"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from fencelock.cli import arguments, diagnosis
from fencelock.cli.arguments import Arguments
from fencelock.cli.diagnosis import FAIL, Finding
from fencelock.cli.exits import hint_for
from fencelock.cli.output import json_line, visible
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
    rule = diagnosis.acl_rule(args.prefix, cluster=is_cluster(args))
    if args.json:
        json_line({"checks": [each._asdict() for each in findings], "acl": rule})
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
            yield from diagnosis.server(session)
        except FencelockError as error:
            advice = hint_for(error)
            yield Finding(FAIL, "server", str(error), "" if "doctor" in advice else advice)


def _print(findings: list[Finding], rule: str) -> None:
    for each in findings:
        first, *more = each.found.splitlines()
        print(f"{each.level:5} {each.what:12} {visible(first)}")
        for line in more:
            print(f"{'':18} {visible(line)}")
        if each.change:
            print(f"{'':18} -> {visible(each.change)}")
    print(f"\nThe smallest permissions that do (put in a name and a password):\n  {rule}")
