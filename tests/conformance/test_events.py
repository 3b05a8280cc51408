"""What hooks see: each request ends once, each grant ends once, for every object and both faces."""

import contextlib
import os
import pickle
import subprocess
import sys
from collections import Counter
from itertools import chain

import pytest

from fencelock import AcquireTimeout, LeaseLost, Poll
from fencelock._core import events
from fencelock.instrumentation import LockEvent, get_hooks, set_hooks
from fencelock.instrumentation.metrics import GAUGE, MetricsHook, Sink
from tests.kinds import MADE

ENDS = (events.RELEASED, events.LOST)
ENDS_OF_REQUESTS = (
    *(events.GRANTED, events.REFUSED, events.TIMED_OUT),
    *(events.GAVE_UP, events.FAILED, events.DEADLOCK),
)


# Of these each event is counted, or a gauge rises.
COUNTED = {
    events.GRANTED: "holds",
    events.WAITING: "waiters",
    events.TIMED_OUT: "timeouts",
    events.RENEWED: "renewal.duration",
    events.RENEWAL_FAILED: "renewal.failures",
    events.RECALLED: "recalls",
    events.DEADLOCK: "deadlocks",
}


class Measured(Sink):
    """Counts the measurements of each outcome, and what gauges came to."""

    def __init__(self):
        super().__init__(self.adder_of)
        self.counts, self.gauges = Counter(), Counter()

    def adder_of(self, measure, labels):
        what = measure.name.removeprefix("fencelock."), *labels[2:]

        def add(value):
            is_gauge = measure.form == GAUGE
            self.gauges[what] += value if is_gauge else 0
            self.counts[what] += value > 0 if is_gauge else 1

        return add

    @staticmethod
    def due(event):
        """Yield what an event adds to."""
        if event.kind in ENDS_OF_REQUESTS:
            yield "wait.duration", event.kind
        if event.kind in ENDS:
            yield "hold.duration", event.kind
        if event.kind == events.LOST:
            yield "lost", event.reason
        if event.kind in COUNTED:
            yield (COUNTED[event.kind],)


class Seen:
    """A hook that keeps the events of one test; metrics count the same."""

    def __init__(self):
        self.all, self.measured = [], Measured()

    def __call__(self, event):
        assert isinstance(event, LockEvent)
        self.all.append(event)

    def kinds(self, name="a"):
        return [each.kind for each in tuple(self.all) if each.name == name]

    def one(self, kind, name="a"):
        (found,) = [each for each in tuple(self.all) if (each.kind, each.name) == (kind, name)]
        return found

    def balanced(self):
        """Each request has ended once, and each grant; metrics say the same."""
        counts = Counter((each.number, each.kind) for each in self.all if each.number)
        for number in {number for number, _ in counts}:
            ended = sum(counts[number, kind] for kind in ENDS_OF_REQUESTS)
            assert (counts[number, "requested"], ended) == (1, 1), self.all
            over = sum(counts[number, kind] for kind in ENDS)
            assert over == counts[number, "granted"], self.all
        assert self.measured.counts == Counter(chain(*map(Measured.due, self.all)))
        assert not any(self.measured.gauges.values())


@pytest.fixture
def seen(world):
    hook = Seen()
    set_hooks([hook, MetricsHook(hook.measured, templates_max=10)])
    yield hook
    set_hooks([])
    hook.balanced()


async def test_a_lock_that_is_free(world, seen):
    client = world.client(label="me")
    async with client.lock("a", template="a{}") as lease:
        pass
    assert seen.kinds() == ["requested", "granted", "released"]
    granted, released = seen.one("granted"), seen.one("released")
    assert granted.fence == released.fence == lease.fence
    assert (granted.template, granted.object) == ("a{}", "lock")
    assert granted.who["label"] == "me"
    assert granted.who["pid"] > 0
    assert 0 <= granted.waited < 5
    assert 0 <= released.held < 5
    assert granted.number == released.number > 0
    assert granted.unit is not None
    assert granted.unit is released.unit


async def test_a_waiter_is_reported_with_what_it_waits_behind(world, seen):
    lock = world.client().lock("a")
    assert await lock.acquire()
    other = world.client().lock("a")
    waiter = world.start(other.acquire())
    await world.in_line("a", 1)
    assert await world.until(lambda: "waiting" in seen.kinds())
    await lock.release()
    assert await waiter.result()
    assert seen.one("waiting").ahead == 0
    waited = [each.waited for each in seen.all if each.kind == "granted"]
    assert waited[1] > 0
    await other.release()


@pytest.mark.no_quorum
async def test_a_waiter_of_the_same_client_knows_who_holds(world, seen):
    client = world.client()
    lock = client.lock("a")
    assert await lock.acquire()
    waiter = world.start(lock.acquire())
    await world.until(lambda: "waiting" in seen.kinds())
    assert seen.one("waiting").behind["pid"] > 0
    await lock.release()
    assert await waiter.result()
    await lock.release()


async def test_a_try_that_is_refused_and_a_wait_that_times_out(world, seen):
    lock, other = world.client().lock("a"), world.client().lock("a")
    assert await lock.acquire()
    assert not await other.acquire(blocking=False)
    assert not await other.acquire(timeout=0.05)
    await lock.release()
    assert Counter(seen.kinds()) == {
        **dict.fromkeys(("granted", "refused", "waiting", "timed_out", "released"), 1),
        "requested": 3,
    }
    assert seen.one("timed_out").waited >= 0.05


async def test_what_is_cancelled_gives_up(world, seen):
    if world.blocking:
        pytest.skip("a thread cannot be cancelled")
    lock, other = world.client().lock("a"), world.client().lock("a")
    assert await lock.acquire()
    waiter = world.start(other.acquire())
    await world.until(lambda: "waiting" in seen.kinds())
    waiter.abandon()
    await world.until(lambda: "gave_up" in seen.kinds())
    await lock.release()


async def test_a_loss_with_its_reason(world, seen):
    lock = world.client().lock("a", ttl=0.3, renew=False)
    assert await lock.acquire()
    await world.until(lambda: "lost" in seen.kinds())
    lost = seen.one("lost")
    assert (lost.reason, lost.detail) == ("expired", "it was not renewed, as requested")
    assert 0.05 < lost.held < 5
    with pytest.raises(LeaseLost):
        await lock.release()
    assert seen.kinds() == ["requested", "granted", "lost"]


@pytest.mark.one_server
async def test_a_loss_that_the_release_finds(world, seen):
    lock = world.client().lock("a", ttl=60)
    assert await lock.acquire()
    world.server.command("DEL", world.key("a"))
    with pytest.raises(LeaseLost):
        await lock.release()
    assert seen.kinds() == ["requested", "granted", "lost"]


async def test_renewals(world, seen):
    lock = world.client().lock("a", ttl=0.3)
    assert await lock.acquire()
    await world.until(lambda: seen.kinds().count("renewed") >= 2)
    await lock.release()


OBJECTS = {
    "rlock": lambda client: client.rlock("a"),
    "semaphore": lambda client: client.semaphore("a", 2),
    "rwlock.read": lambda client: client.rwlock("a").read,
    "rwlock.write": lambda client: client.rwlock("a").write,
    "election": lambda client: client.election("a"),
}


@pytest.mark.no_quorum
@pytest.mark.parametrize("kind", OBJECTS)
async def test_each_object_says_what_it_is(world, seen, kind):
    async with OBJECTS[kind](world.client()):
        pass
    assert seen.kinds() == ["requested", "granted", "released"]
    assert {each.object for each in seen.all} == {kind}
    assert {each.template for each in seen.all} == {kind}  # never the name


@pytest.mark.no_quorum
async def test_the_parts_of_a_multi(world, seen):
    client = world.client()
    async with client.multi(["b", client.lock("a", template="a{}")]):
        pass
    other = client.lock("b")
    assert await other.acquire()
    assert not await client.multi(["a", "b", "c"]).acquire(timeout=0.05)
    assert not await client.multi(["a", "b", "c"]).acquire(blocking=False)
    await other.release()
    assert seen.kinds("c") == ["requested", "timed_out", "requested", "refused"]
    assert {each.name for each in seen.all if each.held_by} == {"b"}
    first = [each for each in seen.all if each.kind == "requested"][:2]
    assert len({each.group for each in first}) == 1
    assert first[0].group > 0
    assert {(each.name, each.template) for each in first} == {("a", "a{}"), ("b", "multi")}


async def test_more_templates_than_metrics_keep_apart(world):
    found = set()
    sink = Sink(lambda _, labels: found.add(labels[0]) or (lambda _: None))
    set_hooks([MetricsHook(sink, templates_max=2)])
    try:
        for number in range(4):
            async with world.client().lock("a", template=f"t{number}"):
                pass
    finally:
        set_hooks([])
    assert found == {"t0", "t1", "(other)"}


@pytest.mark.no_quorum
async def test_a_run_once(world, seen):
    once = world.client().once("a", within=60)

    async def run():
        return 1

    await once.run(run)
    await once.run(run)
    assert seen.kinds() == ["requested", "granted", "released", "requested", "refused"]
    assert seen.one("refused").reason == "done"


@pytest.mark.no_quorum
async def test_the_plain_form(world, seen):
    client = world.client()
    lock = client.lock("a", wait=Poll(interval=0.01, max_tries=3))
    assert await lock.acquire()
    assert not await client.lock("a", wait=Poll(interval=0.01, max_tries=3)).acquire()
    await lock.release()
    assert Counter(seen.kinds())["refused"] == 1


async def test_a_hook_that_raises_changes_nothing_and_is_logged_once(world, caplog):
    def broken(_):
        raise ValueError("a hook")

    set_hooks([broken])
    try:
        lock = world.client().lock("a")
        async with lock:
            pass
        async with lock:
            pass
    finally:
        set_hooks([])
    assert [each.message for each in caplog.records if "hook" in each.message] == [
        f"the hook {broken!r} raised; its further errors are not logged"
    ]


@pytest.mark.one_play  # a second play has hooks
async def test_what_began_without_a_hook_is_not_reported(world):
    lock, late = world.client().lock("a"), Seen()
    assert await lock.acquire()
    set_hooks([late])
    try:
        assert get_hooks() == (late,)
        with contextlib.suppress(LeaseLost):
            await lock.release()
    finally:
        set_hooks([])
    assert late.all == []


@pytest.mark.nightly
def test_hooks_leave_no_trace_when_the_program_ends():
    """A hook keeps the globals of its module, and so the handles in it, longer than usual."""
    program = """
import fencelock
from fencelock.instrumentation import set_hooks
set_hooks([lambda event: client])
client = fencelock.Client("redis://127.0.0.1:1")
lock = client.lock("a")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.one_server
@pytest.mark.parametrize("kind", ["lock", "semaphore", "write"])
async def test_a_timeout_names_the_holder(world, kind):
    holder, late = (MADE[kind](world.client(), label="ann", timeout=0.3) for _ in range(2))
    async with holder as lease:
        with pytest.raises(AcquireTimeout, match=r"held by \S+:\d+ \(.+, ann\) for \d") as error:
            async with late:
                pass
        held_by = error.value.held_by
        assert (held_by.label, held_by.pid, held_by.fence) == ("ann", os.getpid(), lease.fence)
        assert held_by.held_for > 0.2
        assert held_by == pickle.loads(pickle.dumps(error.value)).held_by
