"""The end of a body releases what its beginning acquired, in whichever thread it comes."""

import contextlib
import sys
import threading

import pytest

import fencelock
from fencelock import FencelockError, LeaseLost, NotHeld
from tests.kinds import HELD, SHARED
from tests.threads.state import ended, thread
from tests.waiting import until

KINDS = HELD | SHARED | {"election": lambda client: client.election("a")}


def dependency(handle):
    """Hold while it is suspended, as a dependency of FastAPI that is no coroutine."""
    with handle as lease:
        yield lease


def in_thread(call, *args):
    """Call in a thread that ends then, and return what it returned or raised."""
    told = []

    def run():
        try:
            told.append(call(*args))
        except FencelockError as error:
            told.append(error)

    ended(thread(run))
    return told[0]


def ends(body):
    """Go on after the body of a dependency, in another thread."""
    assert in_thread(next, body, None) is None


def fine(lease):
    return not isinstance(lease, Exception) and lease.remaining() > 0


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("apart", [False, True], ids=["one thread", "threads"])
def test_a_generator_that_ends_elsewhere_releases_its_own(client, kind, order, apart):
    """As found: 31 of 60 requests of a framework lost their permit to another one's end."""
    if kind == "read" and not apart:
        pytest.skip("a thread that reads enters the same lease once more")
    handle = KINDS[kind](client)
    bodies = [dependency(handle) for _ in range(3)]
    leases = [in_thread(next, body) if apart else next(body) for body in bodies]
    for body in list(bodies) if order == "first" else list(reversed(bodies)):
        number = bodies.index(body)
        ends(body)
        bodies[number] = None
        assert [fine(lease) for lease in leases] == [each is not None for each in bodies]


@pytest.mark.parametrize("kind", ["lock", "write", "multi", "election"])
def test_the_end_of_a_lost_body_leaves_the_next_one_alone(client, kind):
    """Its lease was revoked meanwhile, and another body began with the same handle."""
    handle = KINDS[kind](client)
    first = dependency(handle)
    lost = in_thread(next, first)
    client.revoke("a", reason="as the test asked")
    until(lambda: lost.lost)
    if kind == "multi":
        client.revoke("a-b", reason="as the test asked")
    second = dependency(handle)
    lease = in_thread(next, second)
    assert isinstance(in_thread(next, first, None), LeaseLost)
    assert fine(lease)
    ends(second)
    assert not fine(lease)


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.refcounts
def test_an_abandoned_generator_releases_its_own(client, kind):
    """The collector ends it, in whichever thread that is."""
    handle = KINDS[kind](client)
    bodies = [dependency(handle) for _ in range(3)]
    leases = [in_thread(next, body) for body in bodies]
    del bodies[0]
    until(lambda: not fine(leases[0]))
    assert [fine(lease) for lease in leases] == [False, True, True]
    for body in bodies:
        ends(body)


@pytest.mark.parametrize("kind", SHARED)
def test_an_exit_stack_releases_its_own_among_bodies_that_run(client, kind):
    handle = KINDS[kind](client)
    suspended = dependency(handle)
    with contextlib.ExitStack() as stack:
        entered = stack.enter_context(handle)
        kept = next(suspended)
        with handle as inside:
            stack.close()
            assert [fine(each) for each in (entered, kept, inside)] == [entered is kept, True, True]
        assert [fine(each) for each in (kept, inside)] == [True, entered is kept]
    ends(suspended)
    assert not fine(kept)


@pytest.mark.parametrize("kind", SHARED)
def test_an_end_that_may_be_of_several_bodies_is_an_error_and_releases_nothing(client, kind):
    """No frame and no thread tells them apart: the newest may be somebody else's."""
    handle = KINDS[kind](client)
    stacks = [contextlib.ExitStack() for _ in range(2)]
    leases = [stack.enter_context(handle) for stack in stacks]
    refused = in_thread(stacks[0].close)
    assert isinstance(refused, NotHeld)
    assert "several are open" in str(refused)
    assert all(map(fine, leases))
    stacks[0].push(handle)
    for stack in reversed(stacks):  # its own thread still knows
        stack.close()
    assert not any(map(fine, leases))


def test_bodies_of_one_frame_end_in_turn(client):
    """Also the one around a reentrant one that raised."""
    handle = client.rlock("a")
    with handle as outer:
        for _ in range(3):
            with contextlib.suppress(KeyError), handle, handle:
                raise KeyError
        assert fine(outer)
    assert not fine(outer)


def test_the_body_of_a_permit_leaves_other_permits_of_its_thread(client):
    """As found: the end of a body gave back one permit of its thread's, the newest."""
    handle = client.semaphore("a", 5)
    with handle as lease:
        assert handle.acquire()
        newest = handle.lease
    assert not fine(lease)
    assert fine(newest)
    handle.release()


def test_a_body_whose_hold_was_released_ends_no_other_body(client):
    """A release inside ended the first one early, and another one holds through the handle."""
    handle = client.lock("a")
    first, second = dependency(handle), dependency(handle)
    next(first)
    handle.release()
    lease = next(second)
    with pytest.raises(NotHeld):
        next(first)
    assert fine(lease)
    ends(second)


@pytest.mark.refcounts
def test_bodies_keep_no_frame_alive(client):
    class Witness:
        pass

    handle, lost = client.lock("a"), []

    def begins():
        witness = Witness()
        lost.append(sys.getrefcount(witness))
        handle.__enter__()
        lost.append(sys.getrefcount(witness))

    begins()
    assert lost[0] == lost[1]
    handle.__exit__(None, None, None)


def test_a_client_of_threads_is_used_by_generators_of_many_threads(client):
    """Sixty requests at once, of which each is begun and ended by any thread of a pool."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only here

    handle = client.semaphore("a", 60)

    def request(_):
        body = dependency(handle)
        lease = pool.submit(next, body).result()
        try:
            lease.check()
        finally:
            pool.submit(next, body, None).result()
        return True

    with ThreadPoolExecutor(8) as pool, ThreadPoolExecutor(20) as callers:
        assert all(callers.map(request, range(60)))
    assert handle.available() == 60


def test_a_suspended_body_is_no_certain_part_of_a_deadlock(server, prefix, caplog):
    """It may end in another thread, as here: the first waits in vain, but not for ever."""
    with fencelock.Client(server.url, key_prefix=prefix, deadlock_after=0.3) as client:
        a, b = client.lock("a"), client.lock("b")
        bodies, both, got = [dependency(a), dependency(b)], threading.Barrier(2), []

        def work(body, wanted):
            next(body)
            both.wait()
            with wanted:
                got.append(wanted)

        units = [thread(work, bodies[0], b), thread(work, bodies[1], a)]
        until(lambda: "perhaps a deadlock" in caplog.text)
        assert got == []
        for body in bodies:
            ends(body)
        for unit in units:
            ended(unit)
        assert len(got) == 2
