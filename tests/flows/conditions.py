"""What is explored of conditions: who waits, who notifies, who else wants the lock."""

from fencelock._core.objects import condition
from fencelock.errors import LeaseLost, OutcomeUnknown, ServerError
from tests.flows.scenarios import RENEWED, Scenario, single, user
from verification.simulator.conditions import PLACE, ConditionMonitor
from verification.simulator.monitor import Violation

# Longer than a notification may be on its way, over a dead waiter and a lost message.
PATIENCE = 9.0


def waiter(timeout=PATIENCE, options=RENEWED, *, server_timeout=5.0):
    """A process that takes the lock, waits, and releases; it asks the server for so long."""

    async def waits(actor):
        hold = await actor.acquire(actor.request(options), None)
        if hold is None:
            return
        _, again = await actor.world.monitor.waits(actor, hold, timeout, options)
        if again is not None:
            await actor.release(again)

    return single(waits, server_timeout=server_timeout)


def struck():
    """A process that Ctrl-C strikes as its wait begins, before anything is asked."""

    async def waits(actor):
        hold = await actor.acquire(actor.request(RENEWED), None)
        if hold is not None:
            await actor.world.monitor.waits(actor, hold, None, RENEWED, KeyboardInterrupt())

    return single(waits)


def notifier(*numbers, after=0.5, work=0.0, server_timeout=5.0):
    """A process that takes the lock, notifies, works, and releases."""

    async def notifies(actor):
        await actor.port.sleep(actor.port.now() + after)
        hold = await actor.acquire(actor.request(RENEWED), None)
        if hold is None:
            return
        try:
            for n in numbers:
                await condition.notify(actor.port, PLACE, hold, n)
            if work:
                await actor.port.sleep(actor.port.now() + work)
        except (ServerError, OutcomeUnknown, LeaseLost) as error:
            if not actor.world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
        finally:
            await actor.release(hold)

    return single(notifies, server_timeout=server_timeout)


def scenario(name, *roles, **more):
    return Scenario(name, roles, monitor=ConditionMonitor, **more)


ONE = scenario("condition: 1 waits, 1 notifies", waiter(), notifier(1))
RACE = scenario("condition: 1 waits, 1 notifies at once", waiter(1.5), notifier(1, after=0.0))
TWO_ONE = scenario("condition: 2 wait, 1 is notified", waiter(), waiter(4.0), notifier(1))
TWO_ALL = scenario("condition: 2 wait, all are notified", waiter(), waiter(), notifier(-1))
ALONE = scenario("condition: 1 waits in vain", waiter(1.0))
CLOSE = scenario(
    "condition: 1 gives up as it is notified", waiter(0.5), notifier(1, after=0.5), large=True
)
# Its server is given up before a lease has run out: of what was under way then nothing is asked
# again, which in every order, with both on one connection each, would take minutes.
CLOSE_BRIEF = scenario(
    "condition: 1 gives up as it is notified, and soon without an answer",
    waiter(0.5, server_timeout=2.0),
    notifier(1, after=0.5),
    large=True,
)
BUSY = scenario("condition: 1 waits, 1 notifies, 1 wants the lock", waiter(), notifier(1), user())
WORKS = scenario(
    "condition: 1 gives up while another works", waiter(0.6), notifier(1, after=0.5, work=1.0)
)

# The waiter stood in line for the lock before: that request may come once the wait has begun.
LINED = scenario(
    "condition: 1 stands in line, and waits in vain", user(work=1.5), waiter(1.0), large=True
)
LINED_NOTIFIED = scenario(
    "condition: 1 stands in line, waits, and is notified",
    user(work=0.5),
    waiter(),
    notifier(1, after=2.0),
    large=True,
)
STRUCK = scenario("condition: 1 is interrupted as it begins to wait", struck(), user(work=4.0))

ALL = (ONE, RACE, TWO_ONE, TWO_ALL, ALONE, CLOSE, BUSY, WORKS, LINED, STRUCK)
TOGETHER = ({"late": 1, "wake": 1}, {"late": 1, "cut": 1}, {"late": 1, "lost": 1}, {"late": 2})
FAULTS = (
    *("lost", "zombie", "cut", "reboot"),
    "silent",
    "late",
    "wake",
    "noise",
    "expiry",
    "crash",
    "pause",
    "cancel",
    "restart",
)


def plan():
    """Every scenario, undisturbed and under each fault."""
    yield from ALL
    for each in ALL:
        yield from (each.under(**{fault: 1}) for fault in FAULTS)
    for each in (LINED, LINED_NOTIFIED):
        yield from (each.under(**faults) for faults in TOGETHER)
