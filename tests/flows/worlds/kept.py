"""What is explored of leases that stay with their client while they are idle (``linger``)."""

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.engine import holder_of
from fencelock._core.lock.tenure import Tenure, give_up_all
from fencelock.errors import FencelockError
from fencelock.options import Cohort
from tests.flows.worlds.locks import RENEWED, Scenario, foreigner, operator, process, rests, user
from verification.simulator.actors import KEYS
from verification.simulator.cohorts import TurnsMonitor
from verification.simulator.monitor import Violation, proves
from verification.simulator.simulation import EPOCH_US

LINGER = 0.4
KEPT = RENEWED._replace(cohort=Cohort(turns=8, seconds=60.0), linger=LINGER)
NO_WAIT = -1.0
DRIFT_US = 20_000


def asker(*, after=0.05):
    """A process that asks whether the lock is held: an idle lease is not."""

    async def asks(actor):
        await actor.port.sleep(actor.port.now() + after)
        actor.world.monitor.begins_to_try(actor.client)
        try:
            holder = await holder_of(actor.port, KEYS)
        except FencelockError:
            return
        actor.world.monitor.looked(actor.client, holder)

    return process(asks)


class KeptMonitor(TurnsMonitor):
    """Besides what holds of every lock: what an idle lease costs, and what a turn may say."""

    def __init__(self, world):
        super().__init__(world)
        self._used = frozenset()
        self._others = frozenset()  # processes since whose last hold another one was granted
        self._surprised = {}  # per hold: whether its process was among them
        self._heard = frozenset()  # revocations, by process
        self._trying = {}  # tries under way → whether somebody held meanwhile

    def holds_now(self, client, hold):
        """Judge a turn as it begins."""
        super().holds_now(client, hold)
        if hold.fence <= max(self._used, default=0) and not self.was_revoked(hold):
            raise Violation("I3", f"fence {hold.fence} after {max(self._used)}")
        self._used |= {hold.fence}
        if hold.turn and (client.number, hold.holder_id) in self._heard:
            raise Violation("I8", f"{hold.holder_id!r} begins a turn, and is known to be revoked")
        self._surprised[id(hold)] = client.number in self._others
        self._others -= {client.number}

    def heard_revocation(self, client, holder):
        """Note that a process was told that an operator took a tenure."""
        self._heard |= {(client.number, holder)}

    def served(self, request, before):
        """Note who is granted."""
        super().served(request, before)
        holder = self.view().holder
        if holder is not None and holder != before.holder:
            others = {each.number for each in self._world.clients if not _made(holder, each)}
            self._others |= others
            self._heard = frozenset(each for each in self._heard if each[1] != holder)

    def begins_to_try(self, client):
        self._trying[client.number] = False

    def tried(self, client, hold):
        """See that a try failed only if somebody held the lock."""
        held = self._trying.pop(client.number)
        if hold is None and not held and not self._world.faulty:
            raise Violation("kept", "a try failed, and nobody used the lock")

    def looked(self, client, holder):
        """See that what a look found was in use."""
        if holder is not None and not self._trying.pop(client.number) and not self._world.faulty:
            raise Violation("kept", "an idle lease is taken for one that is held")

    def key(self):
        """Return what of it decides about later violations."""
        trying = tuple(sorted(self._trying.items()))
        return super().key(), self._used, self._others, self._heard, trying

    def check(self):
        """Check every turn, and every lease that is idle."""
        super().check()
        tenures = set()
        for client, hold in self.holds:
            if not client.alive:
                continue
            # Who has not heard of a revocation goes on as if nothing had happened.
            if hold.unchanged and self._surprised[id(hold)] and not self.was_revoked(hold):
                raise Violation("unchanged", f"{hold.holder_id!r}: another one held meanwhile")
            if not proves(hold):
                continue
            if hold.holder_id in tenures:
                raise Violation("I1", f"two turns of {hold.holder_id!r} prove a lease")
            tenures.add(hold.holder_id)
            for number in self._trying:
                self._trying[number] |= number != client.number
        for client, line in self._lines():
            if is_idle(line):
                self._idle(client, line)

    def _idle(self, client, line):
        """See that an idle lease is short on the server, and not idle for too long."""
        view = self.view()
        left = view.end_us - EPOCH_US - self._world.skew_us - self._world.now_us
        ours = view.holder == line.spare.source.holder_id
        longer = not self._world.budgets.keys().isdisjoint({"back", "jump"})
        if ours and not longer and left > HANDOFF_TTL_SECONDS * 1e6 + DRIFT_US:
            raise Violation("I7", f"an idle lease lasts {left / 1e6} s on the server")
        if line.recalled:
            raise Violation("kept", "a lease that was recalled is kept")
        if client.port.now() > line.kept_until + 0.1 and self.is_punctual(client):
            raise Violation("kept", "a lease is idle for too long")

    def _left_by(self, request, view):
        """A world may end while a lease is idle: then its time is not up."""
        lines = [line for _, line in self._lines()]
        idle = any(
            is_idle(line) and line.spare.source.holder_id == request.holder_id for line in lines
        )
        return "" if idle else super()._left_by(request, view)

    def _lines(self):
        for client in self._world.clients:
            if client.alive:
                for line in client.port.lines.cohorts.values():
                    yield client, line

    def end(self):
        """Check that nothing is left of a tenure but a lease that is idle."""
        super().end()
        for client, line in self._lines():
            if not is_idle(line) or client.port.now() > line.kept_until + 0.1:
                raise Violation("I9", f"{client.name} still has a tenure")
        for client in self._world.clients:
            lines = client.port.lines
            if client.alive and len(lines.holders) > len(lines.cohorts):
                raise Violation("I10", f"{client.name} remembers what is over")


def is_idle(line):
    return isinstance(line, Tenure) and line.kept is not None


def wanted(actor, options):
    """Return a request whose ids are marked, as a handle marks them."""
    attempt = actor.request(options)
    attempt.rename(attempt.terms.mark + attempt.id)
    return attempt


def _made(holder, client):
    return holder.lstrip(b"~?*").startswith(client.name.encode())


def keeper(*, rounds=2, work=0.0, pause=0.0, tasks=1, tries=False, options=KEPT):
    """A process that takes the lock again and again, and then has nothing to do for a while."""

    async def turns(actor):
        for number in range(rounds):
            await rests(actor, pause if number else 0.0)
            await actor.hold_once(wanted(actor, options), NO_WAIT if tries else None, work)
        await actor.port.sleep(actor.port.now() + 2 * LINGER)

    return process(*(turns,) * tasks)


def tries(*, after=0.05, times=1):
    """A process that tries now and then, and releases at once what it gets."""

    async def attempts(actor):
        for _ in range(times):
            await actor.port.sleep(actor.port.now() + after)
            actor.world.monitor.begins_to_try(actor.client)
            hold = await actor.acquire(actor.request(RENEWED), NO_WAIT)
            actor.world.monitor.tried(actor.client, hold)
            if hold is not None:
                await actor.release(hold)

    return process(attempts)


def closing():
    """A process that closes while it keeps a lease."""

    async def closes(actor):
        await actor.hold_once(wanted(actor, KEPT), None, 0.0)
        actor.port.lines.close(actor.port.wake)
        give_up_all(actor.port)
        if actor.port.lines.holders:
            raise Violation("kept", "a closed client keeps a lease")

    return process(closes)


def scenario(name, *roles, **more):
    return Scenario(f"kept: {name}", roles, monitor=KeptMonitor, **more)


ALONE = scenario("alone, 3 rounds", keeper(rounds=3))
LATER = scenario("alone, again after it was given up", keeper(pause=0.6))
FELLOW = scenario("1 other in line", keeper(), user(after=0.05))
FELLOW_AT_ONCE = scenario("1 other at once", keeper(), user())
WORKING = scenario("working 0.1 s, 1 other", keeper(work=0.1, pause=0.05), user(after=0.05))
GROWN = scenario("working 0.5 s, 1 other", keeper(work=0.5, pause=0.1), user(after=0.6))
BOTH = scenario("2 of them", keeper(), keeper(), alike=True)
TRIED = scenario("1 tries", keeper(rounds=1), tries())
TRIED_TWICE = scenario("1 tries twice", keeper(rounds=2, pause=0.1), tries(times=2))
TRIED_BUSY = scenario("1 tries while it works", keeper(rounds=1, work=0.2), tries())
TASKS = scenario("2 tasks", keeper(tasks=2))
TRIES_TOO = scenario("by tries, 1 other", keeper(tries=True), user(after=0.05))
ASKED = scenario("1 asks", keeper(pause=0.1), asker())
ASKED_BUSY = scenario("1 asks while it works", keeper(rounds=1, work=0.2), asker())
BROKEN = scenario("1 operator", keeper(pause=0.1), operator(), user(after=0.05))
FOREIGN = scenario("1 foreign", keeper(), foreigner(work=0.1))
CLOSED_ALONE = scenario("closes", closing())
CLOSED = scenario("closes, 1 other", closing(), user(after=0.05))
ALL = tuple(each for each in list(vars().values()) if isinstance(each, Scenario))
