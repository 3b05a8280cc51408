"""``fencelock doctor``: check server, permissions and settings. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._io.sources.quorum import QuorumSource, quorum_source
from fencelock.cli import arguments
from fencelock.cli.arguments import Arguments
from fencelock.cli.doctor import checks
from fencelock.cli.doctor.acl import CLUSTER_COMMANDS, MORE, QUORUM_COMMANDS, acl_rule
from fencelock.cli.doctor.report import FAIL, print_report
from fencelock.cli.output import json_line
from fencelock.cli.session import configured


def doctor_command(argv: list[str]) -> int:
    """Check the server, its permissions and its settings."""
    made = arguments.parser(
        "doctor",
        "check server, permissions and settings",
        more="Changes nothing and starts\nnothing. Exit status 1 when a check fails",
        example="fencelock doctor --url redis://cache.internal:6379/0",
    )
    arguments.add_server(made)
    args = made.parse_args(argv)
    together = quorum_source(args.url, asynchronous=False)
    findings = list(checks.findings(args, together))
    rule = acl_rule(args.prefix, _more(args, together))
    if args.json:
        found = [each._asdict() for each in findings]
        json_line({"checks": found, "acl": rule, "acl_more": MORE})
    else:
        print_report(findings, rule, MORE)
    return 1 if any(each.level == FAIL for each in findings) else 0


def _more(args: Arguments, together: QuorumSource | None) -> Sequence[str]:
    """Return the commands that this configuration needs beyond those of one server."""
    if together is not None:
        return QUORUM_COMMANDS
    return CLUSTER_COMMANDS if "+cluster://" in configured(args) else ()
