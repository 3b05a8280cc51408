"""tenure.py and turns.py, step by step: which waiter is the front, and with what."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fencelock._core.deadlines import validity
from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.keys import LockKeys
from fencelock._core.lock import acquire, turns
from fencelock._core.lock.acquire import begin
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, step_down
from fencelock._core.lock.maintain import apply_renewal, notify_refused
from fencelock._core.lock.release import retire
from fencelock._core.lock.renew import begin_renewal
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.tenure import Tenure, found, join, revoke, try_kept
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.types import NoReply
from fencelock._io.threads import run_blocking
from fencelock.errors import ServerUnreachable
from fencelock.options import Cohort, LeaseOptions

NOW, TTL, COHORT = 1000.0, 2.0, Cohort()


class Port(SimpleNamespace):
    """Nothing but the tables of a client, and a clock that a wait moves on."""

    label, hears = "", True

    def __init__(self):
        super().__init__(clock=NOW, lines=Lines(), waits=UnitWaits(), posted=[])
        self.renewals = RenewalSchedule(self.lines.holders)

    mutex = nullcontext()

    def now(self):
        return self.clock

    def wake(self, waiter):
        pass

    def attend_by(self, when):
        pass

    def attend(self, hold, when):
        pass

    def move(self, hold, when):
        pass

    def jitter(self):
        return 0.5

    def new_id(self):
        return b"new"

    async def wait(self, waiter, until):
        self.clock = until

    def run_in_background(self, script, *_):
        self.posted.append(script.name)

    async def call(self, *_):
        raise NoReply("silent", sent=True)

    def notify_loss(self, hold):
        pass


@pytest.fixture
def port():
    return Port()


def waiter(port, number=1, **options):
    chosen = LeaseOptions(ttl=TTL, renew=True, cohort=COHORT, **options)
    terms = Terms(keys=LockKeys("p:", "a"), options=chosen, client_channel=b"h", ttl=TTL)
    made = Attempt(terms, b"%b%d" % (terms.mark, number))
    made.arrived_at = port.now()
    return made


def granted(port, number=1, **options):
    """Return the hold of a waiter that joined, asked and was granted; it is the front."""
    asks = waiter(port, number, **options)
    line, grant = join(port, asks), Grant(7, port.now() + validity(TTL), TTL)
    hold = Hold(port, asks, grant.fence, grant.deadline)
    line.begin(port, hold, grant, fresh=True)
    return line, hold


def alone(port):
    """Return the hold of a waiter that no other of its client has joined, and its lock's terms."""
    asks, grant = waiter(port), Grant(7, port.now() + validity(TTL), TTL)
    hold = Hold(port, asks, grant.fence, grant.deadline)
    hold.grant = grant
    port.lines.cohorts[asks.terms.cohort] = hold
    return hold, asks.terms.cohort


def test_the_first_other_makes_the_tenure_of_a_hold_that_is_alone(port):
    hold, key = alone(port)
    hold.deadline += TTL  # it was renewed since: the bound counts from the grant
    line = join(port, waiter(port, 2))
    assert (line.front, hold.tenure, port.lines.cohorts) == (hold, line, {key: line})
    assert (line.turns, line.ends, line.lease) == (1, hold.grant.deadline, TTL)
    step_down(port, hold)
    assert line.front is not hold


def test_one_that_is_alone_leaves_the_table_when_it_ends_in_whichever_way(port):
    hold, _ = alone(port)
    retire(port, hold)
    assert port.lines.cohorts == {}
    hold, _ = alone(port)
    step_down(port, hold)
    assert port.lines.cohorts == {}


def hears(port, hold):
    """An operator's message has been read."""
    port.renewals.young[hold] = NOW
    assert revoke(port, hold.holder_id, "why") == (hold,)


def hears_first(port, hold):
    """It came before the grant."""
    port.lines.remember_revoked(hold.holder_id, "why")
    attempt, kept = waiter(port), SimpleNamespace(hold_type=lambda *_: hold, add=str)
    attempt.registry = kept
    begin(port, attempt, Grant(7, hold.deadline, TTL))


def is_refused(port, hold):
    """A renewal has been answered."""
    apply_renewal(port, [hold], [TTL], NOW, {0: "taken"})


def may_last(port, hold):
    """A renewal for longer goes out: for the server this turn may last far beyond the next."""
    begin_renewal(port, [hold], [9 * TTL])


@pytest.mark.parametrize("ends", [hears, hears_first, is_refused, may_last])
@pytest.mark.parametrize("linger", [0.0, 0.2])
def test_a_lease_that_ended_is_no_other_turns_before_its_loss_is_recorded(
    port, monkeypatch, ends, linger
):
    monkeypatch.setattr(acquire, "revoked_before", lambda *_: None)  # another thread stopped there
    line, hold = granted(port, linger=linger)
    ends(port, hold)
    assert hold.loss is None
    assert not line.keep(port, hold)
    join(port, waiter(port, 2, linger=linger))
    assert not line.pass_on(port, hold)


def passed_on(port, line, hold, *, begins):
    """Return the hold of the next turn of a lease, which ``begins`` or was only given."""
    join(port, waiter(port, 2, linger=line.linger))
    assert line.pass_on(port, hold)
    turn, mine = line.spare.turn, Hold(port, hold, hold.fence + 1, hold.deadline)
    if begins:
        port.renewals.young[mine] = NOW + 1
        line.begin(port, mine, turn, fresh=False)
    return mine


@pytest.mark.parametrize("begins", [False, True])
def test_a_refusal_is_told_to_the_turn_to_which_the_lease_was_passed_on(port, begins):
    """The answer to a renewal of the turn before comes late, and is about the holder id of both."""
    line, hold = granted(port)
    mine = passed_on(port, line, hold, begins=begins)
    run_blocking(notify_refused(port, {hold: "taken"}, NOW + 1))
    assert (mine.loss is not None and mine.loss.reason == "taken") is begins
    assert port.lines.revoked == ({} if begins else {hold.holder_id: None})


@pytest.mark.parametrize("renewed", [False, True])
def test_a_lease_is_not_kept_while_a_renewal_of_a_turn_before_may_run(port, renewed):
    line, hold = granted(port, linger=0.2)
    if renewed:
        begin_renewal(port, [hold], [TTL])
    mine = passed_on(port, line, hold, begins=True)
    assert line.keep(port, mine) is not renewed


def test_a_revocation_of_what_no_turn_has_is_remembered_for_the_next(port):
    line, hold = granted(port, linger=0.2)
    assert port.lines.holders == {hold.holder_id: line}
    assert line.keep(port, hold)
    assert revoke(port, hold.holder_id, "why") == ()
    assert (line.kept, port.lines.revoked) == (None, {hold.holder_id: "why"})
    assert not port.lines.holders


@pytest.mark.parametrize("asked_at", [NOW - 60, NOW - 1])
def test_what_continues_a_question_waits_since_it_began_or_since_it_came(port, asked_at):
    """As found: whoever had come long before raised ServerUnreachable at once."""
    port.server_timeout = 5.0
    line, hold = granted(port)
    heir = waiter(port, 2)
    heir.arrived_at = NOW - 30
    join(port, heir)
    port.clock = asked_at
    asks = line.for_next(port, hold)
    port.clock, asks.began = NOW, True
    if asked_at < NOW - 5:
        with pytest.raises(ServerUnreachable):
            turns._continued(port, heir, asks)
    else:
        assert turns._continued(port, heir, asks).latest == asked_at + 5


@pytest.mark.parametrize("joined", [False, True])
def test_an_interrupt_before_the_tenure_is_in_the_table_leaves_nothing(port, joined):
    hold, key = alone(port)
    line = Tenure.of(port.lines, hold)
    assert port.lines.cohorts == {key: hold}
    if joined:  # the next one takes the same: the holder has it already
        other = waiter(port, 2)
        assert join(port, other) is line
        assert line.leave(port, other)
    retire(port, hold)
    assert port.lines.cohorts == {}


@pytest.mark.parametrize("tries", [False, True])
def test_a_kept_lease_is_the_turn_of_the_next_waiter(port, tries):
    line, hold = granted(port, linger=0.2)
    assert line.keep(port, hold)
    mine = waiter(port, 2, linger=0.2)
    assert (try_kept(port, mine) if tries else join(port, mine)) is line
    assert line.front is mine
    assert line.spare.turn == Grant(8, hold.deadline, TTL)
    assert line.spare.unchanged
    assert port.posted == []


def test_a_kept_lease_that_proves_too_little_is_released_and_the_waiter_asks(port):
    line, hold = granted(port, linger=0.2)
    assert line.keep(port, hold)
    port.clock = hold.deadline - line.least_kept + 0.001
    mine = waiter(port, 2, linger=0.2)
    assert join(port, mine) is line
    assert (line.front, line.spare, port.posted) == (mine, None, ["release"])


def test_a_try_finds_no_kept_lease_that_proves_too_little(port):
    line, hold = granted(port, linger=0.2)
    assert line.keep(port, hold)
    port.clock = hold.deadline - line.least_kept + 0.001
    mine = waiter(port, 2, linger=0.2)
    assert try_kept(port, mine) is None
    assert (mine.tenure, port.posted) == (None, ["release"])
    assert port.lines.cohorts == {}


def test_a_try_whose_kept_lease_is_over_as_it_begins_waits_in_no_line(port, monkeypatch):
    """Its thread stood still in between: it asks once, as any try, and the lease is released."""
    line, hold = granted(port, linger=0.2)
    assert line.keep(port, hold)
    monkeypatch.setattr(turns, "in_time", lambda turn, now: False)
    mine = waiter(port, 2, linger=0.2)
    mine.at_once = True
    assert run_blocking(turns._in_turn(port, mine, try_kept(port, mine))) is None
    assert (port.posted, port.lines.cohorts) == (["release"], {})


def test_the_hold_of_a_try_is_the_front_before_another_waiter_can_join(port, monkeypatch):
    begin, fronts = Tenure.begin, []

    def seen(line, at, hold, grant, *, fresh):
        fronts.append((line.front, port.lines.cohorts == {line.terms.cohort: line}))
        begin(line, at, hold, grant, fresh=fresh)

    monkeypatch.setattr(Tenure, "begin", seen)
    asks = waiter(port, linger=0.2)
    grant = Grant(7, NOW + TTL, TTL)
    hold = Hold(port, asks, grant.fence, grant.deadline)
    found(port, hold, grant)
    assert fronts == [(hold, True)]
    second = Hold(port, waiter(port, 2, linger=0.2), 8, grant.deadline)
    found(port, second, grant)
    assert hold.tenure.front is hold, "the first tenure goes on"


def test_a_lease_that_ends_makes_the_first_waiter_the_front_whichever_finds_it(port):
    """The other one goes on waiting: two that ask at once would need two places in line."""
    line, hold = granted(port)
    first, second = waiter(port, 2), waiter(port, 3)
    second.give_up_at = hold.deadline + 1
    assert join(port, first) is join(port, second) is line
    assert not run_blocking(turns._become_front(port, line, second))
    assert port.clock == hold.deadline + 1
    assert line.front is first
    assert run_blocking(turns._become_front(port, line, first))


def test_a_turn_that_is_passed_on_is_a_release_after_which_none_is_left(port):
    line, hold = granted(port)
    join(port, waiter(port, 2))
    assert run_blocking(turns.give_back(port, hold, None)) == 0
    assert line.front is not hold
    assert hold.released
