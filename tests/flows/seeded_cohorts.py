"""Faults sown on purpose in the turns of a client's waiters: see ``seeded``."""

from fencelock._core.lock import acquire, cohort, hold, request, turns, waiting
from fencelock.scripts.constants import FENCE_ROOM
from tests.flows import cohorts as worlds
from tests.flows.seeded import Change, script, seed

NOT_THE_HOLDER = "if redis.pcall('GET', KEYS[1]) ~= holder then"

SEEDS = (
    seed(
        "a turn beyond the number of turns",
        Change(cohort.LocalLine, "and self.turns < self.most", ""),
        worlds.THREE,
        "I5",
        daily="lock",
    ),
    seed(
        "a turn beyond the time of the cohort",
        Change(cohort.LocalLine, "and now < self.until", ""),
        worlds.OVER_TIME,
        "I5",
    ),
    seed(
        "a turn with too little of the lease",
        Change(cohort.LocalLine, "and hold.deadline - now >= validity(length) * self.part", ""),
        worlds.FIXED_LONG,
        "L",
    ),
    seed(
        "a turn of a lease that is not renewed any more, with half of it",
        Change(cohort.LocalLine, "validity(length) * self.part", "validity(length) * RENEWED_PART"),
        worlds.ONCE,
        "L",
    ),
    seed(
        "a turn while a renewal may still shorten the lease",
        Change(cohort, "return not renewing and", "return"),
        worlds.SHORTER.under(zombie=1),
        "I1 I2",
    ),
    seed(
        "a turn while a copy of the request may still come",
        Change(cohort, "and not hold.request.strays", ""),
        worlds.STRAY.under(late=1, cut=1),
        "I1 I3 I9",
    ),
    seed(
        "a turn with the fence of the one before",
        Change(cohort.LocalLine, "Grant(hold.fence + 1,", "Grant(hold.fence,"),
        worlds.TWO,
        "I3",
        daily="lock",
    ),
    seed(
        "a turn of those who want the lock on other terms",
        Change(
            request, "return keys.lock, *lasts, cohort.turns, cohort.seconds", "return keys.lock"
        ),
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
        Change(cohort, "line.revoked = holder, reason", "pass"),
        worlds.BROKEN.under(late=1),
        "I8",
    ),
    seed(
        "a turn that begins when its lease is over",
        Change(turns, "if turn.deadline > port.now():", "if True:"),
        worlds.TWO.under(pause=1),
        "I4",
    ),
    seed(
        "a loss that leaves the next waiter waiting",
        Change(hold.Hold, "self.cohort.succeed(port, self)", "pass"),
        worlds.FIXED_TOO_LONG,
        "I6",
    ),
    seed(
        "a waiter that is served before those who came first",
        Change(cohort.LocalLine, "heir = self.waiting[0]", "heir = self.waiting[-1]"),
        worlds.THREE_MANY,
        "I5 I6 I9",
    ),
    seed(
        "a front that is not notified",
        Change(cohort.LocalLine, "port.wake(front)", "pass"),
        worlds.TWO,
        "I6",
        daily="lock",
    ),
    seed(
        "a front that gives up without another one",
        Change(
            turns,
            "        line.succeed(port, waiter)\n        return None",
            "        return None",
        ),
        worlds.IMPATIENT_BESIDE,
        "I5 I6 I9",
    ),
    seed(
        "a front that takes its place in line away with it",
        Change(turns, "left = line.succeed(port, waiter, _left(asks), keeps=True)", "left = False"),
        worlds.MIXED,
        "I5",
    ),
    seed(
        "a front that undoes the request that it left to another",
        Change(
            acquire,
            "        left = left or leave_to(waiter)\n        if not left:",
            "        left = left or leave_to(waiter)\n        if True:",
        ),
        worlds.MIXED.under(cancel=1),
        "I1 I4 I5 I6 I9",
    ),
    seed(
        "an interrupted waiter that keeps the turn that it was given",
        Change(
            turns,
            "port.run_in_background(*alone.release_call(given.source, given.turn.fence))\n"
            "        elif",
            "pass\n        elif",
        ),
        worlds.TWO.under(cancel=1),
        "I9 I6",
    ),
    seed(
        "an interrupted waiter that keeps the place that it was given",
        Change(turns, "elif given.place is not None and waiter.local:", "elif False:"),
        worlds.MIXED.under(cancel=1),
        "I5 I6 I9",
    ),
    seed(
        "a place that is not dropped when its first answer is late",
        Change(
            turns,
            "if given.place is not None and not given.place.stood:",
            "waiter.local = False\n    if given.place is not None and not given.place.stood:",
        ),
        worlds.TWO.under(late=1),
        "I9",
    ),
    seed(
        "a place that a release brings, and that no waiter takes",
        Change(cohort.LocalLine, "return giver.gave or given is NOTHING", "return True"),
        worlds.FIXED_JOINING.under(late=1),
        "I9",
    ),
    seed(
        "a request under way that is left to another, and not undone after it",
        Change(turns, "(Stray(asks.path, asks.channel),) if asks.asking else ()", "()"),
        worlds.THREE.under(cancel=1).threads(),
        "I9 I1",
    ),
    seed(
        "a waiter that joins the end of the line when its turn comes to ask",
        Change(request.AcquireRequest, "max(0, int(waited * 1e6))", "0"),
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
        Change(waiting.Lines, "for each in cohort.waiting]", "for each in ()]"),
        worlds.CLOSED,
        "I13",
    ),
)
