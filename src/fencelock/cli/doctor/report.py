"""What a question of ``fencelock doctor`` answers."""

from __future__ import annotations

from typing import Final, NamedTuple

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
