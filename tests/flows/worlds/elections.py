"""What is explored of elections: a leader hands over, a watcher sees who leads."""

from dataclasses import dataclass

from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.objects.election import Contest, mark
from fencelock.errors import LeaseLost
from fencelock.options import LeaseOptions
from tests.flows.worlds.locks import RENEWED, Scenario, process, rests, user
from tests.flows.worlds.runs_once import errors, long_enough, was_notified
from verification.simulator.actors import _Watch
from verification.simulator.monitor import Monitor, Violation

KEYS = LockKeys("", "lock")
SHORT = LeaseOptions(
    ttl=1.5, renew=True
)  # shorter than the lease with which a handed-over one starts
# A watcher looks every 2 s; an answer that does not come costs it the port's patience once.
SEEN_SECONDS = 9.0


class Watched(Monitor):
    """A monitor that knows who waits for the lock from who only watches it."""

    def _waiting(self):
        for request in super()._waiting():
            if any(request is each for _, each in self.requests):
                yield request


@dataclass(frozen=True)
class Election(Scenario):
    """A scenario with candidates who have names."""

    monitor: type[Monitor] = Watched

    def begin(self, world):
        world.elected, world.handed = [], set()
        world.standing = {}  # who campaigns now, by name
        super().begin(world)


def request(port, candidate, options=RENEWED):
    options = options._replace(kind="election")
    template = Terms(
        keys=KEYS, options=options, client_channel=port.client_channel, ttl=options.ttl
    )
    return Hold(template, port.new_id(), b"{" + mark(candidate))


async def elected(actor, name, options=RENEWED):
    """Campaign; return the hold."""
    world = actor.world
    world.standing[name] = actor.client
    try:
        hold = await actor.acquire(request(actor.port, name, options), None)
    finally:
        world.standing.pop(name, None)
    if hold is not None:
        skipped = world.handed.difference(world.elected, {name})
        if skipped and not world.faulty:
            raise Violation("I5", f"{name} was elected though {skipped} was handed over to")
        world.elected.append(name)
    return hold


def candidate(name, *, work=0.0, late=0.0, options=RENEWED):
    """A process that is elected, leads and resigns."""

    async def stands(actor):
        await rests(actor, late)
        hold = await elected(actor, name, options)
        if hold is not None:
            try:
                await leads_for(actor, hold, work)
            finally:
                await actor.release(hold)
                Contest(actor.port, KEYS).announce()

    return process(stands)


async def leads_for(actor, hold, work):
    """Lead for some time; a lease that is renewed has its full length by then (L)."""
    began = actor.port.now()
    await rests(actor, work)
    long_enough(actor, hold, actor.port.now() - began)


def stands_again(name, *, work=0.0, rounds=2):
    """A candidate that campaigns again: it leads on, or gives up what it lost and stands anew.

    As the faces do it: see ``CandidateHolds.begin``.
    """

    async def stands(actor):
        hold = None
        try:
            for _ in range(rounds):
                if hold is None or not hold.remaining():
                    if hold is not None:
                        lost, hold = hold, None
                        was_notified(lost)
                        lost.release_in_background(actor.port)
                    hold = await elected(actor, name)
                    if hold is None:
                        return
                await actor.port.sleep(actor.port.now() + work)
        finally:
            if hold is not None:
                await actor.release(hold)
                Contest(actor.port, KEYS).announce()

    return process(stands)


def in_line(world, name):
    """Return True if a candidate stands in line on the server."""
    queue = KEYS.grant[2]
    entries = [value for key, (value, _) in world.server.state if key == queue]
    return any(mark(name) in text for line in entries for _, text in line)


def hands_over(*names, before=0.3, after=0.0, again=False, options=RENEWED):
    """A leader that hands over to the first of these who waits; else it leads on and resigns.

    ``again``: it campaigns again when it has handed over.
    """

    async def leads(actor):
        port = actor.port
        hold = await elected(actor, "leader", options)
        if hold is None:
            return
        handed = False
        try:
            await port.sleep(port.now() + before)
            for name in names:
                if not handed and not hold.released:
                    handed = await hand_over(actor, hold, name)
            if not handed and not hold.released and after:
                await port.sleep(port.now() + after)
                if hold.lost and not actor.world.faulty:
                    raise Violation("I8", "a lease that was kept was lost")
                long_enough(actor, hold, after)
        finally:
            if not hold.released:
                await actor.release(hold)
        if handed and again:
            anew = await elected(actor, "leader", options)
            if anew is not None:
                await actor.release(anew)

    return process(leads)


async def hand_over(actor, hold, name):
    """Hand over as the faces do; True when it was done.

    A candidate that stands in line, and lives, must not be said to be away (I12).
    """
    port, world = actor.port, actor.world
    waits, client, handed = in_line(world, name), world.standing.get(name), False
    with errors(actor):
        try:
            handed = await Contest(port, KEYS).hand_over(hold, _Watch(actor), name)
        except LeaseLost as loss:
            proved = port.now() < hold.deadline
            if proved and not world.monitor.was_revoked(hold):
                raise Violation("I4", f"a proved lease was refused: {loss}") from loss
            raise
        if handed:
            world.handed.add(name)
        elif waits and client is not None and still_stands(world, name, client):
            raise Violation("I12", f"{name} stands in line, and is said to be away")
    return handed


def still_stands(world, name, client):
    """Return True if a candidate has campaigned on, undisturbed; not while a cancellation ends."""
    stands = world.standing.get(name) is client and client.alive
    return stands and world.monitor.is_punctual(client) and "cancel" not in world.budgets


def watcher():
    """A process that watches until it has seen a leader, and nobody after it."""

    async def watches(actor):
        port = actor.port
        watch, led = Contest(port, KEYS), False
        with errors(actor):
            while not led or watch.last is not None:
                changed = await watch.next_change(port.now() + SEEN_SECONDS)
                if not changed:
                    holder = actor.world.monitor.view().holder
                    if (holder is None) != (watch.last is None):
                        raise Violation("I6", f"a change was not seen: {watch.last}")
                    if holder is None:  # whoever led was gone before the first look
                        return
                led = led or watch.last is not None

    return process(watches)


HAND_OVER = Election(
    "election, to the 2nd of 2", (hands_over("c"), candidate("b"), candidate("c")), large=True
)
TO_FIRST = Election("election, to the 1st of 2", (hands_over("b"), candidate("b"), candidate("c")))
TO_ONLY = Election("election, to the only one", (hands_over("b"), candidate("b")))
TO_NOBODY = Election("election, to no candidate", (hands_over("x", after=4.0), candidate("b")))
TO_NOBODY_AND_ONE = Election(
    "election, to no candidate and then to one", (hands_over("x", "b"), candidate("b"))
)
AND_BACK = Election("election, handed over and back", (hands_over("b", again=True), candidate("b")))
SHORT_LEADER = Election(
    "election, a short lease to a long one",
    (hands_over("b", options=SHORT), candidate("b", work=1.0)),
)
SHORT_CANDIDATE = Election(
    "election, a long lease to a short one",
    (hands_over("b"), candidate("b", work=1.0, options=SHORT), candidate("c")),
)
AGAIN = Election("election, 1 campaigns again", (stands_again("a", work=1.0),))
AGAIN_BESIDE = Election(
    "election, 1 campaigns again beside another",
    (stands_again("a", work=1.5), candidate("b")),
    large=True,
)
ALONE = Election("election, alone, to no candidate", (hands_over("x"),))
# The leader waited for its leadership: that request may still come when it has handed over.
LINED = Election(
    "election, the leader stood in line",
    (user(work=1.5), hands_over("b", before=0.0), candidate("b")),
    large=True,
    deep=True,
)
AT_ONCE = Election(
    "election, at once", (hands_over("c", before=0.0), candidate("b"), candidate("c")), large=True
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
