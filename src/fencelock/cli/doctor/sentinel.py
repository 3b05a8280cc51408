"""The check of ``fencelock doctor`` for a service behind Sentinels."""

from __future__ import annotations

from typing import Final

from fencelock._transport.sentinel import ANSWER_SECONDS, Watched, Word
from fencelock._transport.sentinel_dial import survey
from fencelock.cli.doctor.report import OK, WARN, Finding
from fencelock.clock import now

_LEAST: Final = 3


def sentinels(source: Watched) -> Finding:
    """Tell how many Sentinels answer, and whether they agree on the master."""
    said = survey(source, now() + ANSWER_SECONDS)
    words = [word for word in said if isinstance(word, Word)]
    named = sorted({f"{word.host}:{word.port}, epoch {word.epoch}" for word in words})
    found = f"{len(words)} of {len(said)} answer: {'; '.join(named) or 'no master'}"
    if len(words) < len(said):
        errors = dict.fromkeys(str(word) for word in said if isinstance(word, Exception))
        found += "".join(f"\n{error}" for error in errors)
        change = "repair the silent Sentinels, or remove them from the URL"
        return Finding(WARN, "sentinels", found, change)
    if len(named) > 1:
        return Finding(WARN, "sentinels", found, "a failover may be in progress: run doctor again")
    if any(word.doubt for word in words):
        change = "a Sentinel cannot reach the master: a failover may follow"
        return Finding(WARN, "sentinels", found, change)
    if len(words) < _LEAST:
        change = "run three or more, on separate machines: fewer have no majority after a failure"
        return Finding(WARN, "sentinels", found, change)
    return Finding(OK, "sentinels", found)
