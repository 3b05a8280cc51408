"""What is explored of elections: a leader hands over, a watcher sees who leads."""

from fencelock._core import election
from fencelock._core.election import ElectionKeys, Watch, mark
from fencelock._core.want import Form, Want
from fencelock.errors import LeaseLost
from fencelock.testing.actors import _Watch
from fencelock.testing.monitor import Monitor, Violation
from tests.flows.duties import errors
from tests.flows.scenarios import RENEWED, Scenario, single, user

KEYS = ElectionKeys("", "lock")
# A watcher looks every 2 s; an answer that does not come costs it the port's patience once.
SEEN_SECONDS = 9.0


class Watched(Monitor):
    """A monitor that knows who waits for the lock from who only watches it."""

    def _waiting(self):
        for want in super()._waiting():
            if any(want is each for _, each in self.wants):
                yield want


class Election(Scenario):
    """A scenario with candidates who have names."""

    def build(self, server, traced):
        world = Scenario("empty", ()).build(server, traced)
        world.budgets, world.push_first = dict(self.budgets), self.push_first
        world.monitor, world.elected, world.handed = Watched(world), [], set()
        world.monitor.flows = self.flows
        for role in self.roles:
            role(self, world)
        return world


def request(port, candidate):
    form = Form(keys=KEYS, terms=RENEWED, home=port.home, ttl=RENEWED.ttl)
    return Want(form, port.new_id(), b"{" + mark(candidate))


async def elected(actor, name):
    """Campaign; return the hold."""
    hold = await actor.acquire(request(actor.port, name), None)
    if hold is not None:
        world = actor.world
        skipped = world.handed.difference(world.elected, {name})
        if skipped and not world.faulty:
            raise Violation("I5", f"{name} was elected though {skipped} was handed over to")
        world.elected.append(name)
    return hold


def candidate(name, *, work=0.0, late=0.0):
    """A process that is elected, leads and resigns."""

    async def stands(actor):
        if late:
            await actor.port.sleep(actor.port.now() + late)
        hold = await elected(actor, name)
        if hold is not None:
            try:
                if work:
                    await actor.port.sleep(actor.port.now() + work)
            finally:
                await actor.release(hold)
                election.announce(actor.port, KEYS)

    return single(stands)


def hands_over(to, *, before=0.3, after=0.0):
    """A leader that hands over; when nobody takes it, it leads on and resigns."""

    async def leads(actor):
        port, watch = actor.port, _Watch(actor)
        hold = await elected(actor, "leader")
        if hold is None:
            return
        handed = False
        try:
            await port.sleep(port.now() + before)
            with errors(actor):
                try:
                    handed = await election.hand_over(port, hold, KEYS, watch, to)
                except LeaseLost as loss:
                    proved = port.now() < hold.lease.deadline
                    if proved and not actor.world.monitor.was_revoked(hold):
                        raise Violation("I4", f"a proved lease was refused: {loss}") from loss
                    raise
            if handed:
                actor.world.handed.add(to)
            elif hold.lease._hold is not None and after:
                await port.sleep(port.now() + after)
                if hold.lease.lost and not actor.world.faulty:
                    raise Violation("I8", "a lease that was kept was lost")
        finally:
            if hold.lease._hold is not None:
                await actor.release(hold.lease._hold)

    return single(leads)


def watcher():
    """A process that watches until it has seen a leader, and nobody after it."""

    async def watches(actor):
        port = actor.port
        watch, led = Watch(request(port, "watcher"), KEYS), False
        with errors(actor):
            while not led or watch.last is not None:
                changed = await election.next_change(port, watch, port.now() + SEEN_SECONDS)
                if not changed:
                    holder = actor.world.monitor.view().holder
                    if (holder is None) != (watch.last is None):
                        raise Violation("I6", f"a change was not seen: {watch.last}")
                    if holder is None:  # whoever led was gone before the first look
                        return
                led = led or watch.last is not None

    return single(watches)


HAND_OVER = Election("election, to the 2nd of 2", (hands_over("c"), candidate("b"), candidate("c")))
TO_FIRST = Election("election, to the 1st of 2", (hands_over("b"), candidate("b"), candidate("c")))
TO_ONLY = Election("election, to the only one", (hands_over("b"), candidate("b")))
TO_NOBODY = Election("election, to nobody", (hands_over("x", after=4.0), candidate("b")))
ALONE = Election("election, alone, to nobody", (hands_over("x"),))
AT_ONCE = Election(
    "election, at once", (hands_over("c", before=0.0), candidate("b"), candidate("c"))
)
LEADING = Election(
    "election, to who leads 4 s", (hands_over("c"), candidate("b"), candidate("c", work=4.0))
)
# The head of the line came so long ago that who takes its place must be known to live.
LATE = Election(
    "election, to a late one",
    (hands_over("c", before=8.0), candidate("b"), candidate("c", late=7.5)),
)
RIVAL = Election(
    "election, to the 2nd of 2, the 1st works",
    (hands_over("c"), candidate("b", work=1.5), candidate("c")),
)
LEADING_ON = Election("election, 1 leads 12 s, 1 watches", (watcher(), candidate("a", work=12.0)))
WATCHED = Election("election, 1 leads, 1 watches", (candidate("a", work=1.0), watcher()))
UNANNOUNCED = Election("election, 1 lock, 1 watches", (user(work=1.0), watcher()))
