"""What is explored of ``once``: who runs, who waits for the result, and that it is run once."""

import contextlib

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.release import release
from fencelock._core.lock.terms import Terms
from fencelock._core.objects import once
from fencelock._core.objects.once import FinishedOnce, question, result_key
from fencelock.errors import LeaseLost, NotAcknowledged, OutcomeUnknown, ServerError
from tests.flows.worlds.locks import RENEWED, Scenario, process, rests, user
from verification.simulator.actors import _Watch, moves_for_too_long
from verification.simulator.monitor import Violation

ONCE = LockKeys("", "lock")
WITHIN = 600.0  # longer than any schedule
# What is left at least of a lease that is renewed each third of its ttl, and when it is grown.
RENEWED_PART, GROWN_SECONDS, SLACK = 0.6, 0.4, 0.2


def terms_at(port):
    """Return the terms of a run at a client's port."""
    given = {"client_channel": port.client_channel, "ttl": RENEWED.ttl}
    return Terms(keys=ONCE, options=RENEWED, question=question(ONCE), **given)


def kept(world):
    """Return the result that the server keeps."""
    for key, (value, _) in world.server.state:
        if key == result_key(ONCE):
            return once.parsed(value)
    return None


def was_granted(actor):
    """Return True if the server granted the lock to this process at some time."""
    name = actor.client.name.encode()
    return any(holder.startswith(name) for holder in actor.world.monitor.granted)


def sees(world, done):
    """Note a result that a process learnt: one, and one more for each that was forgotten."""
    if world.budgets.get("restart") == 0:  # it has
        return
    world.results = {*getattr(world, "results", ()), done.fence}
    if len(world.results) > 1 + getattr(world, "forgotten", 0):
        raise Violation("I1", f"there are {len(world.results)} results")


def runner(*, timeout=None, work=0.0, fails=False, rest=0.0):
    """A process that runs it, or learns what it came to; after a rest."""

    async def runs(actor):
        port = actor.port
        await rests(actor, rest)
        terms = terms_at(port)
        request = Hold(terms, port.new_id(), b'{"once":1}')
        actor.world.monitor.asks(actor.client, request)
        watch = request.registry = _Watch(actor)
        with errors(actor):
            asked_at = port.now()
            try:
                begun = await once.Runs(port, ONCE).start(request, timeout)
            except NotAcknowledged as missing:
                # To read it takes nothing that can be lost; a grant of its own may have run out.
                if kept(actor.world) is not None and not was_granted(actor):
                    raise Violation("I12", f"its result is there to read: {missing}") from missing
                raise
            if isinstance(begun, FinishedOnce):
                sees(actor.world, begun)
            elif begun is not None:
                await runs_on(actor, begun, watch, work, fails)
            elif timeout and actor.world.monitor.is_punctual(actor.client):
                actor._in_time(asked_at + timeout)

    return process(runs)


async def runs_on(actor, hold, watch, work, fails):
    port, done = actor.port, kept(actor.world)
    if done is not None and hold.remaining():
        raise Violation("I1", f"a run began after it was done, with fence {done.fence}")
    ended, began = False, port.now()
    try:
        await rests(actor, work)
        long_enough(actor, hold, port.now() - began)
        ended = True
    finally:
        if fails or not ended:
            await release(port, hold)
    if not fails:
        fence, over = hold.fence, port.now() >= hold.deadline
        before = kept(actor.world)
        try:
            await once.Runs(port, ONCE).finish(hold, watch, WITHIN, ("json", b"1"))
        except LeaseLost as loss:
            after = kept(actor.world)
            if after and not before and after.fence == fence:
                raise Violation("I4", f"it was kept, and its end was refused: {loss}") from loss
            raise
        finally:
            was_notified(hold, over)
        sees(actor.world, FinishedOnce(fence, 0.0, 0.0, "", "", b""))


def was_notified(hold, lost=True):
    """See that a holder was notified of its loss, whoever noticed it (I8)."""
    if lost and not hold.notified:
        raise Violation("I8", f"{hold.holder_id!r} was not notified of its loss")


@contextlib.contextmanager
def errors(actor, timeout=None):
    """See that nothing is raised without a fault; ``timeout`` is what the call was given."""
    try:
        yield
    except LeaseLost as loss:
        if not actor.world.faulty:
            raise Violation("I8", f"without any fault: {loss!r}") from loss
    except (ServerError, OutcomeUnknown) as error:
        if not actor.world.faulty and not moves_for_too_long(error, timeout):
            raise Violation("I12", f"without any fault: {error!r}") from error


def long_enough(actor, hold, held):
    """See that a lease has the length that was asked for, so long after it was granted (L)."""
    options, world = hold.terms.options, actor.world
    if world.faulty or hold.lost or hold.released:
        return
    least = options.ttl - held
    if options.renew:  # renewed by a third; a handed-over one starts short
        least = options.ttl * RENEWED_PART if held > GROWN_SECONDS else HANDOFF_TTL_SECONDS - held
        least = min(least, options.ttl)
    if hold.remaining() < least - SLACK:
        text = f"{hold.remaining()} s are left of {options.ttl} s after {held} s"
        raise Violation("L", f"the lease of {hold.holder_id!r} is too short: {text}")


ALONE = Scenario("once, 1 alone", (runner(),))
ALONE_WORKING = Scenario("once, 1 alone, 1.5 s of work", (runner(work=1.5),))
TWO = Scenario("once, 2 waiting", (runner(),) * 2, alike=True)
THREE = Scenario("once, 3 waiting", (runner(),) * 3, alike=True)
SHORT = Scenario("once, 2 waiting, 0.5 s of work", (runner(work=0.5),) * 2, alike=True)
WORKING = Scenario("once, 2 waiting, 1.5 s of work", (runner(work=1.5),) * 2, alike=True)
LONG = Scenario("once, 2 waiting, 4 s of work", (runner(work=4.0),) * 2, alike=True)
TRIES = Scenario("once, 3 tries", (runner(timeout=0.0),) * 3, alike=True)
IMPATIENT = Scenario(
    "once, 2 working 1.5 s, giving up", (runner(work=1.5, timeout=1.0),) * 2, alike=True
)
FAILING = Scenario("once, 1 fails, 2 waiting", (runner(work=0.5, fails=True), *(runner(),) * 2))
BESIDE_LOCK = Scenario("once, 2 waiting, 1 locks", (*(runner(),) * 2, user()))
