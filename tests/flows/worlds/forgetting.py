"""What is explored of ``once(…).forget()``: one call forgets one run, also when it is repeated."""

from fencelock._core.objects import once
from tests.flows.worlds.locks import Scenario, process
from tests.flows.worlds.runs_once import ONCE, errors, runner

LATER, LAST = 0.5, 1.0


def forgetter(rest=LATER):
    """A process that forgets the result, once."""

    async def forgets(actor):
        await actor.port.sleep(actor.port.now() + rest)
        actor.world.forgotten = 1
        with errors(actor):
            await once.Runs(actor.port, ONCE).forget()

    return process(forgets)


# The second run may end while the call that forgot the first one is repeated; the third asks then.
FORGOTTEN = Scenario(
    "once, 1 forgets, 3 run in turn",
    (runner(), forgetter(), runner(rest=LATER), runner(rest=LAST)),
)
ALONE = Scenario("once, 1 forgets, 2 run in turn", (runner(), forgetter(), runner(rest=LAST)))
