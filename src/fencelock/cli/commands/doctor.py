"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

from fencelock._io.sources.resolve import quorum_source
from fencelock.cli import arguments
from fencelock.cli.doctor.acl import CLUSTER_COMMANDS, MORE, QUORUM_COMMANDS, acl_rule
from fencelock.cli.doctor.questions import findings
from fencelock.cli.doctor.report import FAIL
from fencelock.cli.output import json_line, visible
from fencelock.cli.session import configured


def doctor_command(argv: list[str]) -> int:
    """Check the server, its permissions and its settings."""
    made = arguments.Parser(
        "doctor",
        more="Changes nothing and starts\nnothing. Exit status 1 when a check fails",
        example="fencelock doctor --url redis://cache.internal:6379/0",
    )
    args = made.parse_with_server(argv)
    together = quorum_source(args.url, asynchronous=False)
    found = list(findings(args, together))
    more = CLUSTER_COMMANDS if "+cluster://" in configured(args) else ()
    rule = acl_rule(args.prefix, QUORUM_COMMANDS if together else more)
    status = 1 if any(each.level == FAIL for each in found) else 0
    if args.json:
        checks = [each._asdict() for each in found]
        json_line({"checks": checks, "acl": rule, "acl_more": MORE})
        return status
    node = ""
    for each in found:
        if each.node != node:
            node = each.node
            print(f"\n{visible(node) or 'all together'}")
        first, *others = each.found.splitlines()
        print(f"{each.level:5} {each.what:12} {visible(first)}")
        for line in others:
            print(f"{'':18} {visible(line)}")
        if each.change:
            print(f"{'':18} -> {visible(each.change)}")
    print(f"\nMinimal ACL rule (fill in user and password):\n  {rule}")
    for use, right in MORE.items():
        print(f"  for {use}: {right}")
    return status
