"""One line of the report of ``fencelock doctor``."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "OK"
WARN: Final = "WARN"
FAIL: Final = "FAIL"


class Finding(NamedTuple):
    """How something is, and what to change; of a node of a quorum, at which."""

    level: str
    what: str
    found: str
    change: str = ""
    node: str = ""


def unknown(what: str, right: str) -> Finding:
    """Return the finding for what this user may not ask."""
    return Finding(WARN, what, "unknown", f"grant this user {right}")
