"""Two threads that meet in the middle of their calls, each pair of calls, at any of their lines.

The explorer changes between threads where they talk to a server; Python does so anywhere. One
thread is stopped inside its call, another one inside its own, the first goes on to its end, then
the other. Then each lease that is proved is the server's (I1, I2, I8), everybody gets the lock, and
nothing is left (I6, I9). Which lines meet is a sample, the same each day; at night it is larger, in
each way that a lock can be held.
"""

import contextlib
import os
import threading
import warnings
from functools import partial

import pytest

import fencelock
from fencelock import ClientClosed, FencelockError
from fencelock._core import pushes
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys
from fencelock._core.lock.maintain import Renewer
from fencelock._core.lock.tenure import Tenure
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from fencelock.scripts import BREAK
from tests.flows.sowing import Fault, Statement, several
from tests.kinds import HELD, MADE
from tests.strikes.stops import Stop
from tests.threads.state import ended, thread
from tests.topologies.quorum import Quorum
from tests.waiting import SOON, until

TTL, WITHIN, BRIEF = 60.0, 0.5, 0.01
PROVED = 0.1  # of its own time, for a call that has not returned to take note of a loss
PLAYS, MORE_PLAYS = 7, 24  # by day, of each pair in each of two ways; at night, in all ways
STEP = 5  # of the other thread's lines: each of the first meets one of so many at night
SHARES = ("semaphore", "write", "read")
WAYS = {each: HELD[each] for each in ("turns", "bound", "kept", "strict", *SHARES)}
WAYS["quorum"] = MADE["lock"]
ENDING = {"close", "majority lost"}  # for a client that serves one play


class Play:
    """One meeting: who has what, and which thread does what."""

    def __init__(self, world, name, way, *, closes):
        self.world, self.name, self.told = world, name, []
        self.client = world.made() if closes else world.client
        self.first, self.own, self.next, self.theirs = (
            WAYS[way](each, name, on_lost=self.told.append)
            for each in (*[self.client] * 3, world.other)
        )
        self.leave, self.threads = threading.Event(), []

    def begin(self, work, stop=None):
        """Have a thread do something, watched by a stop."""

        def watched():
            with stop.here() if stop else contextlib.nullcontext():
                quiet(work)

        if stop:
            stop.expect()
        self.threads.append(thread(watched))

    def follow(self):
        """Have the client's next waiter come, and keep what it gets until the end."""
        waits = Stop()
        waits.expect()
        self.begin(lambda: self.keep(self.next, waits))
        waits.until_over()

    def keep(self, handle, stop=None):
        """Take a turn until the end."""
        with stop.here() if stop else contextlib.nullcontext():
            quiet(handle.acquire, timeout=SOON)
        self.leave.wait(SOON)
        quiet(handle.release)

    def gate(self, client):
        return client.event(f"{self.name} event")

    def judge(self):
        """See that what is proved is true, or is no more once a call under way has gone on."""
        for handle in (self.first, self.own, self.next):
            until(partial(self.is_true, handle), "what is proved is true", PROVED)

    def is_true(self, handle):
        """Return False if a handle proves more than the server knows."""
        lease = handle.lease
        deadline = None if lease is None else proved(lease)
        if deadline is None:
            return True
        try:
            mine = handle.owned()
        except ClientClosed:
            return True  # it cannot ask; that another client gets the lock is asked at the end
        left = self.world.other.status(self.name).remaining or 0.0
        longer = deadline > now() + left  # later renewals make it longer still
        return proved(lease) is None or (mine and not longer)

    def end(self):
        """Have all get their turns."""
        self.leave.set()
        for handle in (self.first, self.theirs):
            quiet(handle.release)
        for each in self.threads:
            ended(each)
        ends = self.client is not self.world.client
        # A client that was closed on a busy machine may have left it to its ttl.
        for handle in (self.theirs,) if ends else (self.own, self.theirs):
            assert handle.acquire(timeout=2 * TTL if ends else TTL / 2), "a lease is left"
            handle.release()
        assert len({*map(id, self.told)}) == len(self.told), "somebody was told twice"


def quiet(call, *args, **options):
    """Call, whatever error of ours comes of it."""
    with contextlib.suppress(FencelockError):
        return call(*args, **options)


def proved(lease):
    """Return until when a lease proves something now, or None."""
    deadline = lease.deadline
    return deadline if lease.remaining() else None


# -- what comes first ------------------------------------------------------------------------------


def held(play):
    assert play.first.acquire()
    play.follow()


def taken(play):
    """Another client has it; ours knows once it is told that its renewal was refused."""
    held(play)
    play.world.take_away(play)


def kept(play):
    assert play.first.acquire()
    play.first.release()


def elsewhere(play):
    assert play.theirs.acquire(timeout=SOON)


def free(_play):
    """Nobody holds."""


# -- calls: each begins, watched by a stop ---------------------------------------------------------


def in_a_thread(work):
    return lambda play, stop: play.begin(lambda: work(play), stop)


def taking(whose, **how):
    """Return a call that takes a turn by a handle of a play."""

    def take(play):
        handle = getattr(play, whose)
        if handle.acquire(**how):
            handle.release()

    return in_a_thread(take)


def give_back(play):
    """Another thread releases what it sees."""
    if play.own.lease is not None:
        play.own.release()


def renew(play):
    lease = play.first.lease
    if lease is not None:
        lease.renew(TTL + 5)


def fork(play):
    """A child has nothing of it, and can use its parent's client."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        lease, other = play.first.lease, play.client.lock(f"{play.name} of a child")
        mine = (lease is not None and not lease.lost) or not other.acquire(timeout=SOON)
        os._exit(mine)
    assert os.waitpid(child, 0)[1] == 0, "the child has its parent's lease, or no lock"


def lose_majority(play):
    """Two of three nodes have no lease of this client any more."""
    for node in play.client._port.nodes[:2]:
        Renewer(node).lose_all("taken")


def revoked(play, stop):
    """The renewal thread hears that the lease was revoked."""
    play.world.hear(b"revoked", stop)
    play.world.revoke(play)


def recalled(play, stop):
    """The same, that another client wants a lease that is kept."""
    play.world.hear(b"recall", stop)
    play.begin(partial(play.keep, play.theirs))


def renewed(play, stop):
    """The renewal thread renews."""
    lease, port = play.first.lease, play.client._port
    with port.mutex:
        mine = () if lease is None else port.renewals.held_as(lease.holder.encode())
        for hold in mine:
            port.renewals.discard(hold)
            port.renewals.unplaced[hold] = now()
    play.world.hear("maintain", stop)
    port.attend_by(now())


def handed_over(play, stop):
    stop.end()
    quiet(play.theirs.release)


CALLS = {
    "turn": taking("own", timeout=SOON),
    "keep": in_a_thread(lambda play: play.keep(play.own)),
    "try": taking("own", blocking=False),
    "brief": taking("own", timeout=BRIEF),
    "given back": in_a_thread(give_back),
    "theirs": taking("theirs", timeout=SOON),
    "release": in_a_thread(lambda play: play.first.release()),
    "renew": in_a_thread(renew),
    "close": in_a_thread(lambda play: play.client.close(release=True, timeout=WITHIN)),
    "fork": lambda play, stop: play.begin(lambda: (fork(play), stop.end())),
    "wait": in_a_thread(lambda play: play.gate(play.client).wait(SOON)),
    "opened": in_a_thread(lambda play: play.gate(play.world.other).set()),
    "majority lost": in_a_thread(lose_majority),
    "revoked": revoked,
    "recalled": recalled,
    "renewed": renewed,
    "handed over": handed_over,
}
TURNS = ("turn", "try", "brief")
WAITS = {*TURNS, "theirs", "keep"}  # may wait for what the play ends
LASTING = ("release", "renew", "renewed", "revoked")
# What comes first → what meets what then.
PAIRS = {
    free: [
        *((one, other) for one in TURNS for other in (*TURNS, "close", "fork", "revoked")),
        *(
            ("turn", "given back"),
            ("turn", "theirs"),
            ("close", "turn"),
            ("wait", "close"),
            ("wait", "opened"),
            ("keep", "majority lost"),
        ),
    ],
    elsewhere: [
        *(("turn", other) for other in ("handed over", "close", "revoked", "turn")),
        *(("brief", other) for other in ("handed over", "turn")),
    ],
    held: [
        *((one, other) for one in LASTING for other in (*LASTING, "turn", "close")),
        *(("close", other) for other in ("release", "renew")),
        *(("turn", "release"), ("brief", "release"), ("release", "brief")),
    ],
    taken: [("renewed", "release"), ("renewed", "turn")],
    kept: [
        *((one, other) for one in ("turn", "recalled") for other in ("turn", "recalled", "close")),
        ("recalled", "try"),
    ],
}
ONLY = {kept: {"kept"}, taken: {"turns", "kept", "bound"}}
OF_THREADS = {"read", "write"}  # another thread can release none
OF_LOCKS = {"revoked", "recalled", "renewed"}  # shares go the same way


def ways(first, pair):
    """Return the ways in which a pair meets."""
    if "majority lost" in pair:
        return {"quorum"}
    if "wait" in pair:
        return {"strict"}
    found = ONLY.get(first) or {way for way in WAYS if way not in SHARES or not OF_LOCKS & {*pair}}
    if first is held:
        found -= OF_THREADS
    return found if (first, pair) == (free, ("turn", "close")) else found - {"quorum"}


CASES = [
    pytest.param(
        (number, first, pair, way),
        marks=() if (turn - number) % len(those) < 2 else pytest.mark.nightly,
        id=f"{first.__name__}: {' x '.join(pair)}, {way}",
    )
    for number, (first, pair) in enumerate(
        (first, pair) for first, pairs in PAIRS.items() for pair in dict.fromkeys(pairs)
    )
    for those in [sorted(ways(first, pair))]
    for turn, way in enumerate(those)
]


class World:
    """A server with two clients that have a thread each, and what that thread is stopped in."""

    def __init__(self, url, prefix, heard):
        self.url, self.prefix, self._heard = url, prefix, heard
        self._locks = {}  # that keep the renewal threads
        self.plays = 0
        self.begin()

    def begin(self):
        self.client, self.other = self.made(), self.made()
        self.held = self.client._port.renewals.holds

    def end(self):
        for each in (self.client, self.other):
            each.close(release=True)

    def made(self):
        """Return a client that hears what is pushed to it."""
        made = fencelock.Client(self.url, key_prefix=self.prefix, server_timeout=SOON, ttl=TTL)
        port = made._port
        # Never a name twice: a client that lost its majority leaves the lock to its ttl.
        lock = made.lock(port.new_id().decode(), ttl=10 * TTL)
        self._locks[made] = lock
        lock.acquire()
        for each in port.nodes or (port,):
            each.hear_soon()
            until(lambda: each.hears)  # noqa: B023 - it is called here
        return made

    def hear(self, kind, stop):
        """Stop the thread that takes the next message of a kind, or renews."""
        self._heard[kind] = stop

    def is_told(self, kind):
        """Return True unless a client has yet to hear a message of a kind."""
        stop = self._heard.get(kind)
        return stop is None or stop.is_over()

    def revoke(self, play, reason=b"a test"):
        """Revoke the lock, as an operator does."""
        port, keys = self.other._port, LockKeys(self.prefix, play.name)
        args = (reason, 60_000, port.new_id())
        if not run_blocking(port.ask(BREAK, keys.all, args, now() + SOON))[0]:
            for stop in self._heard.values():
                stop.end()

    def take_away(self, play):
        """Revoke the lock and take it; the message is lost."""
        self._heard[b"revoked"] = None
        self.revoke(play)
        until(lambda: b"revoked" not in self._heard)
        assert play.theirs.acquire(timeout=SOON)

    def play(self, first, calls, way, *, at=None, nth=0):
        """Have two calls meet; return the lines of both that were reached."""
        self.plays += 1
        self._heard.clear()
        one, other = Stop(at), Stop(nth=nth)
        play = Play(self, f"n{self.plays}", way, closes=bool(ENDING & {*calls}))
        first(play)
        try:
            CALLS[calls[0]](play, one)
            one.until_stopped()
            if first in {free, elsewhere}:
                play.follow()
            if first is elsewhere and not one.where and calls[1] not in {"handed over", "close"}:
                play.theirs.release()
                one.until_stopped()
            CALLS[calls[1]](play, other)
            other.until_stopped()
            one.go_on()
            one.until_over()
            knew = "notify_refused" in one.lines.values()
            other.go_on()
            until(lambda: self.is_told(b"revoked"), "a client is told")
            for call, stop in zip(calls, (one, other), strict=True):
                if call not in WAITS or (first is elsewhere and "close" in calls):
                    stop.until_ended()
            if first is not taken or knew:
                play.judge()
            play.end()
            self.see_nothing_left(play)
        except AssertionError as error:
            self.end()  # what is left is no later play's
            self.begin()
            raise AssertionError(f"{error}: {one.where} x {other.where}") from error
        finally:
            one.go_on()
            other.go_on()
            self._heard.clear()
        return one.lines, len(other.lines)

    def see_nothing_left(self, play):
        """See that no client has, or waits for, anything of a play."""
        if play.client is not self.client:
            play.client.close(release=True)
            del self._locks[play.client]
        for each in (self.client, self.other):
            port = each._port
            until(lambda: port.renewals.holds == self.held, "a lease is left")  # noqa: B023 - at once
            until(lambda: not len(port.lines), "a waiter is left")  # noqa: B023 - as above
        assert not [
            each
            for each in self.client._port.lines.cohorts.values()
            if isinstance(each, Tenure) and each.front is not None
        ]


@pytest.fixture(scope="module")
def heard():
    """Have the library stop where it takes a message, or renews; by the kind of it."""
    stops = {}

    def taken_as(kind, real):
        def taken(port, *words):
            if kind not in stops:
                return real(port, *words)
            stop = stops.pop(kind)
            if stop is None:  # it is lost
                return None
            with stop.here():
                return real(port, *words)

        return taken

    maintains = Engine.maintain

    async def maintain(port):
        stop = stops.pop("maintain", None)
        with stop.here() if stop else contextlib.nullcontext():
            await maintains(port)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (b"revoked", b"recall"):
            real = pushes.FOR_CLIENTS[kind]
            patch.setitem(pushes.FOR_CLIENTS, kind, taken_as(kind, real))
        patch.setattr(BlockingPort, "maintain", maintain)
        yield stops


def sampled(world, number, plays, *case):
    """Play a pair so often, at lines that lie as far apart as can be."""
    lines, others = world.play(*case)
    every = max(1, len(lines) // plays)
    for turn, at in enumerate([*lines][number % every :: every]):
        nth = 1 + (turn * STEP + number) % max(1, others)
        _, met = world.play(*case, at=at, nth=nth)
        others = max(others, met)


@pytest.fixture(scope="module")
def worlds(server, heard):
    """Lend one server, and a quorum."""
    with Quorum(3) as nodes:
        made = {each: World(each.url, "two:", heard) for each in (server, nodes)}
        yield [*made.values()]
        for each in made.values():
            each.end()


@pytest.fixture
def met_in(worlds):
    """Return where a pair of calls meets."""
    return lambda case: worlds[case[-1] == "quorum"]


@pytest.fixture
def meet(met_in, caplog):
    """Return what has a pair of calls meet."""

    def meets(plays, number, *case):
        sampled(met_in(case), number, plays, *case)

    yield meets
    assert "failed" not in caplog.text


@pytest.mark.parametrize("case", CASES)
def test_two_calls_meet(meet, case):
    meet(PLAYS, *case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_calls_meet_at_more_lines(meet, case):
    meet(PLAYS if "fork" in case[2] else MORE_PLAYS, *case)


# -- whether it sees what it is there for ----------------------------------------------------------

RECORDED = """
with port.mutex:
    hold.last = True
first = hold.lose(reason, since, detail)
with port.mutex:
    port.renewals.discard(hold)
return first
"""
RECORDED_LATE = """
with port.mutex:
    port.renewals.discard(hold)
return hold.lose(reason, since, detail)
"""
LATE = Statement("keeper.lose", RECORDED, RECORDED_LATE)
UNBOUND = Fault(
    "_core.quorum.lease:Majority.next_due",
    lambda _real, self: min(self.hold.deadline, self.reacquire_at),
)
TWO_HOLD, NO_RENEWALS = "what is proved is true", "a thread failed"
# As found: the thread that renews knew of the loss, and had not recorded it; two held. Or a lease
# had no end when its renewal was planned, and the thread could plan no lease's any more.
SOWN = {
    "a revocation marks nothing": (
        several(LATE, Statement("tenure.revoke", "hold.last = True", "pass")),
        (elsewhere, ("turn", "revoked"), "turns"),
        ({"begin", "take", "found"}, range(6, 13, 2)),
        TWO_HOLD,
    ),
    "a refused renewal marks nothing": (
        several(LATE, Statement("keeper.apply", "hold.last = True", "pass")),
        (taken, ("renewed", "release"), "turns"),
        ({"lose"}, [0]),
        TWO_HOLD,
    ),
    "a quorum's lease is begun though its parts were lost": (
        UNBOUND,
        (free, ("keep", "majority lost"), "quorum"),
        ({"_begin"}, [0]),
        NO_RENEWALS,
    ),
}


@pytest.mark.parametrize("sown", SOWN.values(), ids=SOWN)
def test_what_was_sown_is_found(met_in, caplog, sown):
    """Where the lines of some functions meet some lines of the other thread."""
    change, case, (functions, nths), outcome = sown
    world = met_in(case)
    lines, _ = world.play(*case)

    def all_meet():
        for at in [each for each, name in lines.items() if name in functions]:
            for nth in nths:
                world.play(*case, at=at, nth=nth)
                assert "failed" not in caplog.text, NO_RENEWALS

    with change.applied(), pytest.raises(AssertionError, match=outcome):
        all_meet()
