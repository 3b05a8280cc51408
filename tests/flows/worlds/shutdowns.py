"""What is explored of clients that give back what they hold when they are closed."""

from fencelock.errors import LeaseLost
from tests.flows.worlds.cohorts import TURNS, process
from tests.flows.worlds.locks import RENEWED, Scenario, rests, user
from verification.simulator.cohorts import CohortMonitor
from verification.simulator.monitor import Monitor, Violation, proves

WITHIN = 2.0


def holds(options=RENEWED, *, after=0.0, work=0.0):
    """A task that acquires, works and releases; its client may be closed meanwhile."""

    async def program(actor):
        await rests(actor, after)
        hold = await actor.acquire(actor.request(options), None)
        if hold is None:
            return
        try:
            await rests(actor, work)
        finally:
            hold.count = 0  # its own task releases it
            try:
                await actor.flows.release(actor.port, hold)
            except LeaseLost:
                if hold.loss.reason != "closed" and not actor.world.faulty:
                    raise

    return program


def shuts(after):
    """A task that closes its client and gives back what it holds, as both real ports do."""

    async def program(actor):
        await rests(actor, after)
        actor.port.lines.close(actor.port.wake)
        until = actor.port.now() + WITHIN
        while any(line.waiting for line in actor.port.lines.crowded):
            await rests(actor, 0.01)
            if actor.port.now() > until:
                break
        mine = [hold for client, hold in actor.world.monitor.holds if client is actor.client]
        held = [hold for hold in mine if proves(hold) and hold.count]
        given = await actor.port.give_back_all(until)
        punctual = actor.world.monitor.is_punctual(actor.client)
        if actor.port.now() > until + 0.1 and punctual:
            raise Violation("I13", "giving back took too long")
        if actor.port.renewals.all_holds():
            raise Violation("I11", "a closed client still renews")
        if not given and not actor.world.faulty:
            raise Violation("I12", "without any fault a lease was not given back")
        if any(hold.count and not hold.notified for hold in held):
            raise Violation("I8", "a lease was given back, and its holder was not told")

    return program


def scenario(name, *roles, monitor=Monitor, **more):
    return Scenario(f"shut down: {name}", roles, monitor=monitor, **more)


ALONE = scenario("1 holds", process(holds(work=1.0), shuts(0.3)))
BESIDE = scenario("1 holds, 1 other waits", process(holds(work=1.0), shuts(0.3)), user(after=0.1))
AT_ONCE = scenario("while it acquires", process(holds(work=1.0), shuts(0.0)), user(after=0.1))
AT_RELEASE = scenario("while it releases", process(holds(work=0.3), shuts(0.3)), user(after=0.1))
COHORT = scenario(
    "1 holds, 1 of its cohort waits, 1 other waits",
    process(holds(TURNS, work=1.0), holds(TURNS, after=0.1), shuts(0.5)),
    user(after=0.2),
    monitor=CohortMonitor,
)
COHORT_AT_RELEASE = scenario(
    "while a turn is passed on",
    process(holds(TURNS, work=0.5), holds(TURNS, after=0.1), shuts(0.5)),
    user(after=0.2),
    monitor=CohortMonitor,
)
ALL = tuple(each for each in list(vars().values()) if isinstance(each, Scenario))
