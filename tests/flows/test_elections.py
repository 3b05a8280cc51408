"""Elections in the simulator: every schedule of small worlds, and what a sown fault breaks."""

import pytest

from tests.flows import elections
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import Seed, as_if_asked_once
from tests.flows.sowing import Fault, Statement, Without, script
from tests.flows.test_quick import FAULTS

QUIET = [
    elections.HAND_OVER,
    elections.TO_FIRST,
    elections.TO_NOBODY,
    elections.AT_ONCE,
    elections.LEADING,
    elections.LATE,
    elections.WATCHED,
    elections.UNANNOUNCED,
    elections.LEADING_ON,
    elections.RIVAL,
    elections.TO_NOBODY_AND_ONE,
    elections.AND_BACK,
    elections.SHORT_LEADER,
    elections.SHORT_CANDIDATE,
    elections.AGAIN,
    elections.AGAIN_BESIDE,
]
SMALL = [
    *(
        scenario.under(**{fault: 1})
        for scenario in (elections.TO_ONLY, elections.TO_NOBODY, elections.WATCHED)
        for fault in FAULTS
    ),
    *(
        elections.AGAIN_BESIDE.under(**{fault: 1})
        for fault in ("pause", "expiry", "late", "lost", "restart")
    ),
    *(elections.TO_ONLY.under(**{fault: 1}) for fault in ("reboot", "down")),
    *(elections.AND_BACK.under(**{fault: 1}) for fault in ("lost", "late", "reboot", "cancel")),
    elections.TO_NOBODY_AND_ONE.under(lost=1),
    elections.TO_ONLY.under(cut=1),
    *(each.under(zombie=1) for each in (elections.TO_ONLY, elections.TO_NOBODY, elections.AT_ONCE)),
    elections.LINED.under(late=1, wake=1),
]
# One of two candidates, in one of the two ways; python -m tests.flows.deep does the rest.
LARGE = [elections.HAND_OVER.under(lost=1), elections.HAND_OVER.under(crash=1)]
DISTURBED = [*SMALL, *LARGE]


@pytest.mark.parametrize("scenario", [*both(QUIET + SMALL), *LARGE], ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


SEEDS = [
    Seed(
        "the candidate stays where it was in line",
        script(
            "election_hand_over",
            "call('ZADD', KEYS[3], text(tonumber(line[2]) - 1), entry)",
            "",
        ),
        elections.HAND_OVER,
        frozenset({"I5"}),
    ),
    Seed(
        "the candidate is not known to be alive",
        script("election_hand_over", "remember(1, now, client_channel)", ""),
        elections.LATE,
        frozenset({"I5", "I7"}),
    ),
    Seed(
        "a client that does not lead hands over",
        script("election_hand_over", "call('GET', KEYS[1]) ~= holder", "false"),
        elections.RIVAL.under(late=1),
        frozenset({"I1"}),
    ),
    Seed(
        "a leadership that was kept is not renewed",
        Without("wire.track", by="election.resume"),
        elections.TO_NOBODY,
        frozenset({"I8"}),
        daily="election",
    ),
    Seed(
        "a leadership that was kept is forgotten",
        Without("election.resume", by="election.offer"),
        elections.TO_NOBODY,
        frozenset({"I9"}),
    ),
    Seed(
        "a leader goes on while it hands over",
        Without("keeper.retire", by="election.offer"),
        elections.HAND_OVER,
        frozenset({"I1", "I8"}),
    ),
    Seed(
        "a candidate whose connection was lost is said to be away",
        script("election_hand_over", "if alive and ARGV[4] ~= '1' then", "if false then"),
        elections.TO_ONLY.under(cut=1),
        frozenset({"I12"}),
        daily="election",
    ),
    Seed(
        "a candidate that is silent is not waited for",
        Statement(
            "election.hand_over",
            "disturbed or asked.tries > 0 or reply[1] == SILENT",
            "disturbed or asked.tries > 0",
        ),
        elections.TO_ONLY.under(cut=1),
        frozenset({"I12"}),
    ),
    Seed(
        "a repeated hand-over is refused",
        Fault("election.judge", as_if_asked_once),
        elections.HAND_OVER.under(lost=1),
        frozenset({"I4"}),
    ),
    Seed(
        "a hand-over without a reply keeps the leadership",
        Without("engine.release_later", by="election.offer"),
        elections.ALONE.under(lost=1, cancel=1),
        frozenset({"I9"}),
    ),
    Seed(
        "a hand-over that was answered with no gives the leadership away, late",
        script("election_hand_over", "if call('ZSCORE', KEYS[4], kept) then", "if false then"),
        elections.AT_ONCE.under(zombie=1),
        frozenset({"I1", "I8"}),
    ),
    Seed(
        "a campaign whose request was repeated may still arrive after the hand-over",
        Without("attempt.undo_owed", by="election.offer"),
        elections.LINED.under(late=1, wake=1),
        frozenset({"I9"}),
    ),
    Seed(
        "a request that may still come, whose undo leaves its place in line",
        Statement(
            "attempt.undo_owed", "one.terms.abandon(one, stray.channel)", "one.terms.abandon(one)"
        ),
        elections.LINED.under(late=1, wake=1).threads(),
        frozenset({"I9"}),
    ),
    Seed(
        "a watcher relies on messages alone",
        Statement("election.next_change", "asked_at + HEARTBEAT_SECONDS", "asked_at + 100"),
        elections.LEADING_ON.under(wake=1),
        frozenset({"I6"}),
    ),
]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
