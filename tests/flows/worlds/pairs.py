"""What is explored of calls in pairs: each two calls of one client, and each beside a revocation.

In a world of pairs one task takes the lock. At one instant it makes a call, and another task of its
client another one: every order of their requests, answers and ends is tried. A third task waits for
the lock, so that what goes on after a release is a turn, or a grant that comes with it.
"""

import contextlib
from dataclasses import dataclass
from functools import partial

from fencelock._core.engine import holder_of
from fencelock._core.lock.renew import renew_now
from fencelock._core.lock.tenure import give_up_all
from fencelock._core.look.show import Looker
from fencelock.errors import ClientClosed, FencelockError, LeaseLost, NotHeld
from tests.flows.worlds.cohorts import MANY
from tests.flows.worlds.kept import KEPT, NO_WAIT, KeptMonitor, wanted
from tests.flows.worlds.locks import (
    RENEWED,
    TTL,
    Scenario,
    breaks,
    operator,
    process,
    quietly,
    rests,
    user,
)
from tests.flows.worlds.meetings import (
    BACKGROUND,
    BEFORE,
    CANCEL,
    ONE_STEP,
    WHILE,
    HearingPort,
    Noting,
    Table,
)
from verification.simulator.actors import KEYS, Actor
from verification.simulator.cohorts import CohortMonitor
from verification.simulator.monitor import Monitor, Violation

START_US = 100_001  # after the beginning: both calls begin, with the keeper of a lease that is due
LEAD = 0.05  # a call that waits, or gives up, begins so much earlier
LATER = 0.1  # by then what was pushed at that instant was heard
REST = 0.05  # after the calls, its task releases what it still holds
AMID, WORK = 0.002, 0.01  # a release amid two renewals; how long the next turn lasts
LONGER, SHORTER = 2 * TTL, TTL / 2
ENDED = LONGER + 1.0  # by then a lease that nothing renews is over


class PairsMonitor(Noting, CohortMonitor):
    """Judges turns, and notes what meets."""


class StrictMonitor(Noting, Monitor):
    """Judges a lock without a cohort, and notes what meets."""


class KeptPairsMonitor(Noting, KeptMonitor):
    """Judges leases that are kept, and notes what meets."""


@dataclass(frozen=True)
class Pairs(Scenario):
    """A world whose monitor notes what meets."""

    port = HearingPort


class Desk(Actor):
    """A client whose tasks share one handle, and so its hold."""

    def __init__(self, world, client, flows, options):
        super().__init__(world, client, flows)
        self.options = options
        self.hold = None
        self.work = 0.0  # how long those that wait have it then
        self.taken = False  # a task released it, or its handle is gone

    async def until_start(self, later=0.0):
        """Sleep until the calls begin."""
        await self.port.sleep(self.client.local(START_US + int(later * 1e6)))

    def under_way(self, name, give_up_at=None):
        return self.world.monitor.under_way(self.client, name, give_up_at)

    def wanted(self, options, *, holds=False):
        """Return a request: of the task that holds, or of one beside it."""
        return wanted(self, options)

    # -- calls ----------------------------------------------------------------------------------

    async def release(self):
        """Release what the handle holds; when another task did, it is not held (NotHeld)."""
        if self.taken:
            self.world.monitor.instant(self.client, "release")
            return
        self.taken, hold = True, self.hold
        with self.under_way("release"):
            try:
                await self.flows.release(self.port, hold)
            except LeaseLost as loss:
                proved = self.port.now() < hold.deadline and hold.loss.reason != "closed"
                if proved and not self.world.monitor.was_revoked(hold):
                    raise Violation("I4", f"a proved lease was not released: {loss}") from loss
            except FencelockError as error:
                if not self.world.faulty:
                    raise Violation("I12", f"without any fault: {error!r}") from error
            if hold.tenure is not None and hold.tenure.kept is not None:
                self.world.monitor.instant(self.client, "keep")

    async def renew_for(self, name, ttl):
        with self.under_way(name):
            await self.renew(self.hold, ttl)

    async def longer(self):
        await self.renew_for("renew longer", LONGER)

    async def shorter(self):
        await self.renew_for("renew shorter", SHORTER)

    async def usual(self):
        await self.renew_for("renew", None)

    async def enter_again(self):
        """Renew as a handle does that is entered once more: it never shortens."""
        with self.under_way("enter again"), contextlib.suppress(FencelockError):
            await renew_now(self.port, self.hold, None)

    async def background(self):
        """Do nothing: the lease is due for its renewal at this instant; see ``takes``."""

    async def acquires(self, *, timeout=None, options=None):
        """Acquire as another task of the client, and release."""
        give_up_at = None if timeout is None or timeout < 0 else self.port.now() + timeout
        request = self.wanted(options or self.options)
        name = "try" if timeout is not None and timeout < 0 else "acquire"
        with self.under_way(name, give_up_at):
            hold = await self.acquire(request, timeout)
        if hold is not None:
            await rests(self, self.work)
            await Actor.release(self, hold)

    @property
    def others(self):
        """Return the options of those that wait: beside a lease that is kept, other terms."""
        return RENEWED if self.options is KEPT else self.options

    async def waits(self):
        await self.acquires(options=self.others)

    async def gives_up(self):
        await self.acquires(timeout=LEAD, options=self.others)

    async def tries(self):
        """Try once: it asks the server, and stands in no cohort unless leases are kept."""
        await self.acquires(timeout=NO_WAIT, options=KEPT if self.options is KEPT else RENEWED)

    async def looks(self):
        """Ask who holds."""
        with self.under_way("look"):
            await looks(self)

    async def revokes(self):
        with self.under_way("revoke"), contextlib.suppress(FencelockError):
            await Looker(self.port, KEYS.prefix).revoke(KEYS, "why")

    async def closes(self):
        """Close the client, and give back what it holds, as both real ports do."""
        port = self.port
        with self.under_way("close"):
            port.lines.close(port.wake)
            give_up_all(port)
            await port.give_back_all(port.now() + 2.0)

    async def drops(self):
        """Let the handle go while it holds, as ``Holds.dropped`` does; wait for the lease's end."""
        if self.taken:  # who releases has the handle
            return
        self.taken, hold = True, self.hold
        if hold.loss is not None:
            self.world.monitor.instant(self.client, "drop")
            return
        with self.under_way("drop"):
            hold.drop()
            hold.step_down(hold.port)
        await self.port.sleep(self.port.now() + ENDED)


# What a call is to be called → how, and how much earlier it begins.
CALLS = {
    "release": (Desk.release, 0.0),
    "renew longer": (Desk.longer, 0.0),
    "renew shorter": (Desk.shorter, 0.0),
    "renew": (Desk.usual, 0.0),
    "enter again": (Desk.enter_again, 0.0),
    BACKGROUND: (Desk.background, 0.0),
    "ask": (Desk.waits, 0.0),
    "wait": (Desk.waits, LEAD),
    "give up": (Desk.gives_up, LEAD),
    "try": (Desk.tries, 0.0),
    "look": (Desk.looks, 0.0),
    "revoke": (Desk.revokes, 0.0),
    "close": (Desk.closes, 0.0),
    "drop": (Desk.drops, 0.0),
}


ENDS = ClientClosed, NotHeld  # how a call may end that another task has overtaken


def timed(names, later):
    """Return calls, each with how long after that instant it is made."""
    return [*((each, 0.0) for each in names), *((each, LATER) for each in later)]


def takes(*names, later=(), options=MANY, after=0.0, rest=None):
    """A client that takes the lock and makes these calls, each in a task of its own.

    ``later``: some of them when what was pushed at that instant was heard.
    """

    async def makes(one, name, at):
        call, lead = CALLS[name]
        await one.until_start(at - lead)
        await call(one)

    async def holds(one):
        one.work = WORK if rest == AMID else 0.0
        await rests(one, after)
        one.hold = await one.acquire(one.wanted(one.options, holds=True), None)
        if one.hold is None:
            return
        if BACKGROUND in (*names, *later):
            due_us = START_US + int(LATER * 1e6) * (BACKGROUND in later)
            one.port.renewals.move([one.hold], one.client.local(due_us - 1))
        try:
            for name, at in timed(names, later):
                one.world.start(one.client, quietly(makes(one, name, at), *ENDS))
            await one.until_start((REST if rest is None else rest) + LATER * bool(later))
        finally:
            await one.release()

    return process(holds, actor=partial(Desk, options=options), ends=ENDS)


def at_the_instant(program, earlier=0.0):
    """Another client, that acts at the instant at which the calls begin, or so much earlier."""

    async def acts(actor):
        await actor.port.sleep(actor.client.local(START_US - int(earlier * 1e6)))
        await program(actor)

    return process(acts)


async def looks(actor):
    """Ask whether the lock is held: an idle lease is not."""
    with contextlib.suppress(FencelockError):
        await holder_of(actor.port, KEYS)


# -- the table -------------------------------------------------------------------------------------

# Terms of the handle → its options, the monitor that judges it, and who waits beside the calls.
TERMS = {
    "in turns": (MANY, PairsMonitor, ("wait",)),
    "in turns, alone": (MANY, PairsMonitor, ()),
    "strict": (RENEWED, StrictMonitor, ("wait",)),
    "kept": (KEPT, KeptPairsMonitor, ()),
}
# A renewal that waits for another one may begin when the lease is released.
AMID_A_RELEASE = {"released meanwhile": (MANY, PairsMonitor, ("wait",))}
KEEP = "keep"
RENEWALS = {"renew", "renew longer", "renew shorter", "enter again", BACKGROUND}
APART = (
    ({"drop"}, {"release", KEEP}, "who releases has the handle, so it cannot be gone"),
    ({"drop"}, {"drop"}, "a handle is gone once"),
    ({KEEP}, RENEWALS, "a lease is kept only when no renewal of it is under way"),
    ({KEEP}, {"release", KEEP}, "a hold is released once: the second one finds nothing"),
    (
        {KEEP},
        {"wait", "give up"},
        "a client that waits has recalled the lease, or is its next turn",
    ),
    ({KEEP}, {"close"}, "a client that is closed keeps no lease"),
    ({CANCEL}, {"drop", KEEP}, ONE_STEP),
    (
        {CANCEL},
        {"give up"},
        "what leaves the line is the end of a call: cancel and wait, cancel and ask",
    ),
)
UNHEARD = (
    ({WHILE}, {"drop", KEEP}, ONE_STEP),
    ({BEFORE}, {BACKGROUND, KEEP}, "nothing is left to renew or keep"),
)


def worlds_of(*calls):
    """Return the worlds of two calls, or of one: one for each kind of terms."""
    if CANCEL in calls:
        (call,) = {*calls} - {CANCEL}
        return tuple(each.under(cancel=1) for each in worlds_of(call))
    made = tuple("release" if each == KEEP else each for each in calls)
    return tuple(
        Pairs(
            f"pairs: {' and '.join(made)}, {terms}",
            (
                takes(
                    *made, *beside, options=options, rest=AMID if terms in AMID_A_RELEASE else None
                ),
            ),
            monitor=monitor,
        )
        for terms, (options, monitor, beside) in (TERMS | AMID_A_RELEASE).items()
        if (terms == "kept" or KEEP not in calls)
        and (terms not in AMID_A_RELEASE or (len(made) > 1 and RENEWALS.issuperset(made)))
    )


def revoked(call):
    """Yield the worlds in which an operator breaks the lock while a client makes a call."""
    # Who waits after a revocation waits for the next holder.
    others = (user(work=0.3, after=LEAD),) if call == "wait" else ()
    for terms, (options, monitor, beside) in TERMS.items():
        if call == KEEP and terms != "kept":
            continue
        made = ("release" if call == KEEP else call, *beside)
        made += ("renew",) if call == "release" and terms == "kept" else ()
        for when, role in (
            ("beside", takes(*made, options=options)),
            ("before", takes(later=made, options=options)),
        ):
            name = f"pairs: revoked {when} {call}, {terms}"
            roles = (role, at_the_instant(breaks), *(others if when == "before" else ()))
            yield Pairs(name, roles, monitor=monitor)
    if call == "drop":  # and when its renewal would have been due
        roles = (takes(call), at_the_instant(breaks, earlier=-TTL / 2))
        yield Pairs(f"pairs: revoked long after {call}", roles, monitor=PairsMonitor)
    if call == "ask":  # its answer comes after the news of its end
        yield from (each.under(late=2) for each in REVOKED_AT_ONCE)


REVOKED_AT_ONCE = tuple(
    Pairs(
        f"pairs: revoked beside the first request, {terms}",
        (takes("release", *beside, options=options), operator()),
        monitor=monitor,
    )
    for terms, (options, monitor, beside) in TERMS.items()
)


class OfLocks(Table):
    """The calls of a lock, on different terms."""

    def worlds_of(self, one, other):
        return worlds_of(other, one)

    def revoked(self, call):
        return revoked(call)


LOCKS = OfLocks(
    "lock",
    CALLS | {KEEP: None},
    apart=APART,
    unheard=UNHEARD,
    daily=100,
    faulty=150,
    nightly=600,
)
ALL = tuple({each.name: each for row in LOCKS.rows() for each in row.worlds}.values())
# With a fault, one world of each two calls tells what differs: that in turns.
SINGLE = tuple(each for each in ALL if each.name.endswith(", in turns"))
