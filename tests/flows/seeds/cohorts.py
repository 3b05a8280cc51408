"""Faults sown on purpose in the turns of a client's waiters."""

from math import inf

from fencelock.scripts.constants import FENCE_ROOM
from tests.flows.seeds.locks import seed
from tests.flows.sowing import (
    Fault,
    Statement,
    Without,
    always,
    given,
    nothing,
    script,
)
from tests.flows.worlds import cohorts as worlds

ENOUGH = "hold.deadline - now >= validity(length) * part"
NOT_THE_HOLDER = "if redis.pcall('GET', KEYS[1]) ~= holder then"


def as_if_it_had_asked(real, waits, asks):
    """Continue a question, and be no waiter of the cohort from then on."""
    waits.attempt.local = False
    return real(waits, asks)


SEEDS = (
    seed(
        "a turn beyond the number of turns",
        Statement("tenure.may_pass", "self.turns < self.bound.turns", "self.turns < 1000"),
        worlds.THREE,
        "I5",
        daily="lock",
    ),
    seed(
        "a turn beyond the time of the cohort",
        Fault("tenure.until", lambda _real, _self: inf),
        worlds.OVER_TIME,
        "I5",
    ),
    seed(
        "a turn with too little of the lease",
        Statement("tenure.may_pass", ENOUGH, "hold.deadline - now >= 0.0"),
        worlds.FIXED_LONG,
        "L",
    ),
    seed(
        "a turn of a lease that is not renewed any more, with half of it",
        Statement("tenure.may_pass", ENOUGH, ENOUGH.replace("part", "RENEWED_PART")),
        worlds.ONCE,
        "L",
    ),
    seed(
        "a turn while a copy of the request may still come",
        Statement("tenure.retain", "hold.owed", "False"),
        worlds.STRAY.under(late=1, cut=1),
        "I1 I3 I9",
    ),
    seed(
        "a turn that is longer than its holder asked for",
        Statement("keeper.begin_renewal", "hold.last or ttl > hold.usual", "hold.last"),
        worlds.LENGTHENED,
        "L",
    ),
    seed(
        "a turn with the fence of the one before",
        Fault("tenure.next_fence", lambda _real, fence: fence),
        worlds.TWO,
        "I3",
        daily="lock",
    ),
    seed(
        "a turn of those who want the lock on other terms",
        Fault("terms.tenure_key", lambda real, keys, options: real(keys, options) and keys.lock),
        worlds.UNLIKE,
        "L",
    ),
    seed(
        "a grant that leaves no room for turns that the server does not know of",
        script("break", f"previous + {FENCE_ROOM}", "previous + 1"),
        worlds.BROKEN_BESIDE,
        "I3",
    ),
    seed(
        "a release that does not say which fence was used last",
        script("release", "write_used(base, ARGV[4])", ""),
        worlds.CAUGHT_UP,
        "I3",
    ),
    seed(
        "a turn that begins although its process knows of the revocation",
        Fault("line.remember_revoked", nothing),
        worlds.BROKEN.under(late=1),
        "I8",
    ),
    seed(
        "a turn that begins when its lease is over",
        Statement("tenure.begin_turn", "spare.turn.deadline <= port.now()", "False"),
        worlds.TWO.under(pause=1),
        "I4",
    ),
    seed(
        "a loss that leaves the next waiter waiting",
        Without("tenure.step_down", by="hold.tell"),
        worlds.FIXED_TOO_LONG,
        "I6",
    ),
    seed(
        "a waiter that is served before those who came first",
        Fault("tenure.heir", lambda _real, self: self.waiting[-1]),
        worlds.THREE_MANY,
        "I5 I6 I9",
    ),
    seed(
        "a front that is not notified",
        Without("wire.wake", by="tenure.notify"),
        worlds.TWO,
        "I6",
        daily="lock",
    ),
    seed(
        "a front that gives up without another one",
        Without("tenure.succeed", by="tenure.begin_turn"),
        worlds.IMPATIENT_BESIDE,
        "I5 I6 I9",
    ),
    seed(
        "a front that takes its place in line away with it",
        Without("tenure.succeed", by="tenure.leave_to_next"),
        worlds.MIXED,
        "I5",
    ),
    seed(
        "a front that undoes the request that it left to another",
        Statement(
            "tenure.give_up",
            """
            if asks is not None and not self.leaves(asks):
                asks.withdraw(port)
            """,
            """
            if asks is not None:
                self.leaves(asks)
                asks.withdraw(port)
            """,
        ),
        worlds.MIXED.under(cancel=1),
        "I1 I4 I5 I6 I9",
    ),
    seed(
        "an interrupted waiter that keeps the turn that it was given",
        Without("wire.post", by="tenure.give_up"),
        worlds.TWO.under(cancel=1),
        "I9 I6",
    ),
    seed(
        "an interrupted waiter that keeps the place that it was given",
        Statement("tenure.give_up", "self.local", "False"),
        worlds.MIXED.under(cancel=1),
        "I5 I6 I9",
    ),
    seed(
        "a place that is not dropped when its first answer is late",
        Fault("tenure.continued", as_if_it_had_asked),
        worlds.TWO.under(late=1),
        "I9",
    ),
    seed(
        "a place that a release brings, and that no waiter takes",
        Fault("tenure.delivered", always),
        worlds.FIXED_JOINING.under(late=1),
        "I9",
    ),
    seed(
        "a request under way that is left to another, and not undone after it",
        Fault("tenure.left", lambda _real, _asks: ()),
        worlds.THREE.under(cancel=1).threads(),
        "I9 I1",
    ),
    seed(
        "a waiter that joins the end of the line when its turn comes to ask",
        Fault(
            "terms.acquire_next",
            lambda real, self, one, channel, before, _waited: real(self, one, channel, before, 0.0),
        ),
        worlds.ARRIVALS,
        "I5",
        daily="lock",
    ),
    seed(
        "a release for the next waiter that takes the lock from any holder",
        script("acquire_next", NOT_THE_HOLDER, "if false then"),
        worlds.JOINING.under(lost=1),
        "I1",
    ),
    seed(
        "a release for the next waiter that does not end the tenure",
        script("acquire_next", "redis.call('DEL', KEYS[1])", ""),
        worlds.ARRIVALS,
        "I1 I4 I5 I6 I9",
    ),
    seed(
        "a closed client whose waiters wait on",
        Fault("line.close", given(crowded={})),
        worlds.CLOSED,
        "I13",
    ),
)
