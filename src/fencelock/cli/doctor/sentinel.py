"""The check of ``fencelock doctor`` for a service behind Sentinels."""

from __future__ import annotations

from typing import Final

from fencelock._io.sentinel_blocking import BlockingDialer
from fencelock._io.sources.kinds import SentinelService
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import survey
from fencelock._topology.sentinel import ANSWER_SECONDS, SentinelReply
from fencelock.cli.doctor.report import OK, WARN, Finding

_LEAST: Final = 3


def sentinels(service: SentinelService) -> Finding:
    """Return how many Sentinels answer, and whether they agree on the master."""
    said = run_inline(survey(BlockingDialer(), service, now() + ANSWER_SECONDS))
    replies = [each for each in said if isinstance(each, SentinelReply)]
    named = sorted({f"{each.host}:{each.port}, epoch {each.epoch}" for each in replies})
    found = f"{len(replies)} of {len(said)} answer: {'; '.join(named) or 'no master'}"
    if len(replies) < len(said):
        errors = dict.fromkeys(str(each) for each in said if isinstance(each, Exception))
        found += "".join(f"\n{error}" for error in errors)
        change = "repair the silent Sentinels, or remove them from the URL"
        return Finding(WARN, "sentinels", found, change)
    if len(named) > 1:
        return Finding(WARN, "sentinels", found, "a failover may be in progress: run doctor again")
    if any(each.suspected for each in replies):
        change = "a Sentinel cannot reach the master: a failover may follow"
        return Finding(WARN, "sentinels", found, change)
    if len(replies) < _LEAST:
        change = "run three or more, on separate machines: fewer have no majority after a failure"
        return Finding(WARN, "sentinels", found, change)
    return Finding(OK, "sentinels", found)
