"""A server that is full (noeviction) refuses new locks; held ones are renewed and released."""

import threading

import pytest

import fencelock
from fencelock import LeaseLost, ServerError
from tests.faults.world import PREFIX, Threads, outcome, spawn, wait_until

pytestmark = (
    pytest.mark.either_face
)  # each row says which scripts must run; both faces send the same


@pytest.fixture
def full(own_server):
    """Make the server full, and no longer."""

    def fill(value="1"):
        own_server.command("CONFIG", "SET", "maxmemory", value)

    yield fill
    fill("0")


@pytest.fixture
def make(own_server):
    """Make clients of the server."""
    made = []

    def client():
        made.append(Threads(own_server.url))
        return made[-1].client

    yield client
    for each in made:
        each.close()


def line(server, name):
    return server.command("ZCARD", f"{PREFIX}{{{PREFIX}{name}}}~queue")


def renews_and_releases(lock):
    """Yield once it holds; then it must renew and release."""
    assert lock.acquire()
    yield
    lock.lease.renew(ttl=90)
    assert lock.lease.remaining() > 60
    assert lock.release() is not False
    assert not lock.locked()


def a_lock(make, server):
    yield from renews_and_releases(make().lock("a", ttl=30))


def a_permit(make, server):
    yield from renews_and_releases(make().semaphore("a", 2, ttl=30))


def a_read_lease_beside_another(make, server):
    sides = [make().rwlock("a", read_ttl=30, write_ttl=30) for _ in range(2)]
    assert all(side.read.acquire() for side in sides)
    yield
    for side in sides:
        side.read.lease.renew(ttl=90)
        side.read.release()


def several_locks(make, server):
    locks = make().multi(["a", "b"], ttl=30)
    assert locks.acquire()
    yield
    locks.release()
    assert not make().lock("b").locked()


def a_lock_with_a_waiter(make, server):
    """A waiter waits for longer than a heartbeat, and is granted by a release."""
    ours, theirs = (make().lock("a", ttl=30) for _ in range(2))
    assert ours.acquire()
    waiting = spawn(outcome, theirs.acquire, timeout=20)
    wait_until(lambda: line(server, "a") == 1)
    yield
    pause = threading.Event()
    pause.wait(3)  # a heartbeat must come through
    assert line(server, "a") == 1
    ours.release()
    assert waiting.result(25)[0] is True
    theirs.release()


def waiters_that_give_up(make, server):
    holders = [make().lock("a", ttl=30), make().semaphore("b", 1, ttl=30)]
    waiters = [make().lock("a", ttl=30), make().semaphore("b", 1, ttl=30)]
    assert all(each.acquire() for each in holders)
    waiting = [spawn(outcome, each.acquire, timeout=1.5) for each in waiters]
    wait_until(lambda: line(server, "a") == line(server, "b") == 1)
    yield
    assert [each.result(20)[0] for each in waiting] == [False, False]
    wait_until(lambda: line(server, "a") == line(server, "b") == 0)
    for each in holders:
        each.release()


def a_run_that_keeps_its_result(make, server):
    go, ran = threading.Event(), []

    def work():
        ran.append(1)
        assert go.wait(20)
        return "done"

    running = spawn(outcome, make().once("a", within=60, ttl=30).run, work)
    wait_until(lambda: ran)
    yield
    go.set()
    assert running.result(20)[0].value == "done"
    assert make().once("a", within=60, ttl=30).run(work).value == "done"
    assert len(ran) == 1


def states_that_are_waited_for(make, server):
    ours, theirs = make(), make()
    waiting = [
        spawn(outcome, ours.event("e").wait, 20),
        spawn(outcome, ours.latch("l", 1).wait, 20),
    ]
    wait_until(lambda: all(server.command("EXISTS", PREFIX + name) for name in "el"))
    yield
    theirs.event("e").set()
    theirs.latch("l", 1).count_down()
    assert [each.result(25)[0] for each in waiting] == [True, True]


def a_barrier_whose_action_runs(make, server):
    go, began = threading.Event(), threading.Event()

    def act():
        began.set()
        assert go.wait(20)

    parties = [spawn(outcome, make().barrier("a", 2, action=act).wait, 20) for _ in range(2)]
    assert began.wait(20)
    yield
    go.set()
    assert sorted(each.result(25)[0] for each in parties) == [0, 1]


def what_an_operator_takes(make, server):
    lost = threading.Semaphore(0)
    lock = make().lock("a", ttl=30, on_lost=lambda _: lost.release())
    permit = make().semaphore("b", 1, ttl=30, on_lost=lambda _: lost.release())
    assert lock.acquire()
    assert permit.acquire()
    yield
    operator = make()
    operator.revoke("a", reason="full")
    operator.revoke("b", reason="full")
    assert lost.acquire(timeout=10)
    assert lost.acquire(timeout=10)
    operator.semaphore("b", 1).set_limit(2)


def a_leadership_that_is_handed_over(make, server):
    ours, theirs = (make().election("a", candidate=name, ttl=30) for name in ("one", "two"))
    assert ours.campaign()
    candidate = spawn(outcome, theirs.campaign, timeout=20)
    wait_until(lambda: line(server, "a") == 1)
    yield
    ours.hand_over("two")
    assert candidate.result(25)[0] is True
    theirs.resign()


ROWS = [
    a_lock,
    a_permit,
    a_read_lease_beside_another,
    several_locks,
    a_lock_with_a_waiter,
    waiters_that_give_up,
    a_run_that_keeps_its_result,
    states_that_are_waited_for,
    a_barrier_whose_action_runs,
    what_an_operator_takes,
    a_leadership_that_is_handed_over,
]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_what_clients_have_is_kept_and_given_up_on_a_full_server(own_server, full, make, row):
    playing = row(make, own_server)
    next(playing)
    full()
    with pytest.raises(ServerError, match="out of memory"):
        make().lock("new").acquire(timeout=1)
    for _ in playing:
        pass


def test_a_lock_that_a_full_server_refuses_leaves_nothing(own_server, full, make):
    full()
    for each in (make().lock("a"), make().semaphore("a", 2), make().rwlock("a").read):
        with pytest.raises(ServerError, match="out of memory"):
            each.acquire(timeout=1)
    assert own_server.command("KEYS", f"{PREFIX}*") == []


def test_a_history_that_is_refused_is_told_of_once(own_server, full, caplog):
    def told():
        return [each for each in caplog.records if "(add_history) was refused" in each.message]

    caplog.set_level("DEBUG", "fencelock")
    with fencelock.Client(own_server.url, history=True) as client:
        for sent in (1, 2):  # what was noted is sent a second later
            lock = client.lock("a")
            assert lock.acquire()
            own_server.flushall()
            full()
            with pytest.raises(LeaseLost):
                lock.release()
            wait_until(lambda sent=sent: len(told()) == sent)
            full("0")
    assert [each.levelname for each in told()] == ["WARNING", "DEBUG"]
