"""What hooks are told in every schedule: each request ends once, each grant ends once."""

import pytest

from tests.flows import cohorts, elections, kept, multis, quorums, runs_once, shares
from tests.flows import scenarios as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns
from tests.flows.seeded import seed
from tests.flows.sowing import Fault, Statement, Without

FAULTS = ("lost", "cancel", "late", "silent", "expiry", "crash", "pause", "restart")
QUICK = [
    worlds.TWO_IMPATIENT.under(cancel=1),
    worlds.CHECKED_FIXED,
    worlds.REVOKED,
    cohorts.IMPATIENT.under(cancel=1),
    cohorts.BESIDE,
    kept.FELLOW,
    multis.IMPATIENT,
    multis.TRIES,
    shares.PARTS,
    shares.IMPATIENT_SIDES,
    runs_once.TRIES,
    elections.TO_ONLY,
    quorums.ALONE,
]
WORLDS = [
    *(worlds.TWO, worlds.TRIES, worlds.POLLS, worlds.TWO_TOO_LONG, worlds.RETURNED, worlds.OWNER),
    *(cohorts.IMPATIENT, cohorts.LONGER, kept.TRIED, kept.TASKS, runs_once.TWO, quorums.TWO),
    *(multis.WORKING, multis.IMPATIENT, multis.TRIES, multis.FIXED_BRIEF, elections.TO_ONLY),
    *(shares.THREE, shares.IMPATIENT, shares.TOO_LONG, shares.SIDES, shares.DOWNGRADED),
]
DISTURBED = [each.under(**{fault: 1}) for each in WORLDS for fault in FAULTS]
SCHEDULES = 100  # that the worlds hold is for other tests; here a few ends of each are enough


SEEDS = (
    seed(
        "a lease whose end is reported twice",
        Statement("events.end_hold", "hold.told.pop()", "hold.told[0]"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "a timeout that is not reported",
        Without("events.end", by="attempt.tell"),
        worlds.TWO_IMPATIENT.reported(),
        "E",
    ),
    seed(
        "a cancelled wait that is not reported",
        Without("events.failed", by="engine.acquire"),
        worlds.TWO.under(cancel=1).reported(),
        "E",
    ),
    seed(
        "a request that ends twice",
        Fault("events.ends", lambda real, self: real(self) or True),
        multis.IMPATIENT.reported(),
        "E",
    ),
    seed(
        "a release that is not reported",
        Without("events.end_hold", by="engine.release"),
        worlds.TWO.reported(),
        "E",
    ),
    seed(
        "a loss that is reported as a release",
        Statement("events.end_hold", "reason or hold.loss is not None", "reason"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "a loss that is never reported",
        Statement("hold.lose", "events.end_hold(self)", "self.told = []"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "parts of a multi that are dropped without a word",
        Without("joint.end", by="joint.drop"),
        multis.BESIDE_LAST_IMPATIENT.reported(),
        "E",
    ),
)


@pytest.mark.parametrize("scenario", both(QUICK), ids=lambda each: each.title)
def test_each_request_and_each_grant_ends_once(scenario):
    assert_nothing_breaks(scenario.reported())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", by_turns(DISTURBED), ids=lambda each: each.title)
def test_they_do_under_faults(scenario):
    assert_nothing_breaks(scenario.reported(), schedules=SCHEDULES)


@pytest.mark.nightly
@pytest.mark.parametrize("sown", SEEDS, ids=lambda each: each.name)
def test_what_is_reported_wrongly_is_found(sown):
    assert_found(sown)
