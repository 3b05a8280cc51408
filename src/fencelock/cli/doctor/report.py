"""The report of ``fencelock doctor``: its findings, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fencelock.cli.output import visible

OK: Final = "OK"
WARN: Final = "WARN"
FAIL: Final = "FAIL"


class Finding(NamedTuple):
    """The state of one thing, and what to change; of a quorum, also at which node."""

    level: str
    what: str
    found: str
    change: str = ""
    node: str = ""


# What a question finds. A finding without a ``what`` gets that of its question.
Answer = list[Finding]


def ok(found: str, change: str = "", *, what: str = "") -> Answer:
    """Answer that all is well."""
    return [Finding(OK, what, found, change)]


def warn(found: str, change: str, *, what: str = "") -> Answer:
    """Answer that this may do harm, and what to change."""
    return [Finding(WARN, what, found, change)]


def fail(found: str, change: str = "", *, what: str = "") -> Answer:
    """Answer that this does harm, and what to change."""
    return [Finding(FAIL, what, found, change)]


def unknown(right: str) -> Answer:
    """Answer that this user may not read it, and which permission is missing."""
    return warn("unknown", f"grant this user {right}")


def print_report(findings: list[Finding], rule: str, permissions: Mapping[str, str]) -> None:
    """Print the findings, by node where there are several, and the permissions that are needed."""
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
    for use, right in permissions.items():
        print(f"  for {use}: {right}")
