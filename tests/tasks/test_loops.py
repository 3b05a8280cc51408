"""One client, several loops: each has a connection of its own, and none disturbs another."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from statistics import median

import pytest

import fencelock
from fencelock import ClientClosed, LeaseLost
from fencelock._runtime.clock import now
from fencelock.instrumentation import set_hooks
from tests.patience import PATIENT
from tests.tasks.world import LOOPS
from tests.waiting import SOON, until

FORKS = (
    f"""
import asyncio, ctypes, os, sys, fencelock
from fencelock import ClientClosed, LeaseLost, NotHeld
{PATIENT}"""
    """
url, prefix, kind = sys.argv[1:]
fork = os.fork if kind == "Python" else ctypes.PyDLL(None).fork
on = kind.endswith("loop")
client = fencelock.AsyncClient(url, key_prefix=prefix)
lock = client.lock("a", ttl=6)

async def child(lease):
    assert lease.lost
    try:
        await lock.release()
    except (LeaseLost, NotHeld):
        pass
    else:
        raise AssertionError("the child released its parent's lock")
    assert await lock.acquire(timeout=0.1) is False
    async with client.lock("b") as mine:
        assert mine.fence > lease.fence
        assert (await client.status("b")).holder.pid == os.getpid()
    await client.aclose()

async def child_in_copy(lease):
    assert lease.lost
    for call in (lock.acquire, lock.release, client.aclose, lambda: client.status("b")):
        try:
            await call()
        except (ClientClosed, NotHeld):
            pass
        else:
            assert call == client.aclose
    never = asyncio.get_running_loop().create_future()
    await asyncio.wait([never], timeout=0.5)  # its parent's timers would do something here
    return True

async def parent():
    async with lock as lease:
        await client.lock("b").locked()
        loop = asyncio.get_running_loop()
        pid = fork()
        if pid == 0:
            code = 1
            try:
                if on:  # in the copy of its parent's loop, whose poller both have
                    asyncio._set_running_loop(loop)  # Python 3.11 sees another process id
                    refused = await child_in_copy(lease)
                    assert refused, "a copy of a loop was served"
                else:
                    asyncio._set_running_loop(None)
                    asyncio.run(child(lease))
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            os._exit(code)
        status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
        assert status[1] == 0
        end = lease.deadline
        while lease.deadline == end:
            lease.check()
            await asyncio.sleep(0)
        assert await lock.owned()
    await client.aclose()

asyncio.run(parent())
"""
)


async def turn(client: fencelock.AsyncClient, *, close: bool = True) -> int:
    """Take the lock once; return its fence."""
    async with client.lock("a", timeout=SOON) as lease:
        fence = lease.fence
    if close:
        await client.aclose()
    return fence


def test_a_client_in_one_loop_after_the_other(world):
    """A new loop gets a new connection; what was closed in the old one stays closed there."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    fences = [world.run(turn(client)) for _ in range(3)]
    assert fences == sorted(set(fences))


def test_a_client_whose_loop_was_closed_without_a_word(world):
    """Nobody called aclose(): the old connection ends with its loop, the new loop works."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio's, of an unclosed transport
        for _ in range(3):
            world.run(turn(client, close=False))
        world.run(turn(client))
        gc.collect()
        until(lambda: not world.connections(), "the old loops' connections end")


def test_two_loops_in_two_threads(world):
    """One client and one handle in both at once: they take turns like strangers."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    lock, inside, most, fences, errors = client.lock("a"), [], [], [], []

    async def work(number: int) -> None:
        for _ in range(15):
            async with lock as lease:
                inside.append(number)
                most.append(len(inside))
                fences.append(lease.fence)
                await asyncio.sleep(0)
                inside.remove(number)
        await client.aclose()

    def thread(number: int) -> None:
        try:
            world.run(work(number))
        except BaseException as error:  # noqa: BLE001 - it is for the test to see
            errors.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert errors == []
    assert len(fences) == 30
    assert set(most) == {1}
    assert fences == sorted(set(fences))


def test_a_renewal_takes_four_turns_of_a_loop_that_gives_way_between_blocks(world):
    """Two until the loop sees that it is due, and two until it reads the answer; docs say so.

    Each block asks the server, which has by then answered what was sent before.
    """

    async def turns_taken(lease, port) -> int:
        due, deadline, turns = port.renewals.next_at(), lease.deadline, 0
        while lease.deadline == deadline:
            for _ in range(2):
                world.server.command("PING")
            turns += now() >= due
            await asyncio.sleep(0)
        return turns

    async def work() -> None:
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
        async with client.lock("a", ttl=1.2) as lease:
            taken = [await turns_taken(lease, lease.port) for _ in range(6)]
            # A machine that stops us as the timer is set has the loop see it later.
            assert median(taken) <= 4, taken
        await client.aclose()

    world.run(work())


@pytest.mark.parametrize(
    "ends",
    [sys.exit, lambda: [each.cancel() for each in asyncio.all_tasks()]],
    ids=["exits", "cancels"],
)
def test_a_hook_that_ends_the_program_ends_it_once(world, caplog, ends):
    """As found: what it raised in a renewal was raised again, while the loop was being closed."""
    renewed = []

    def hook(event) -> None:
        if event.kind == "renewed" and not renewed:
            renewed.append(event)
            ends()

    async def work() -> None:
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
        async with client, client.lock("a", ttl=1.2):
            await asyncio.Event().wait()

    set_hooks([hook])
    try:
        with pytest.raises((SystemExit, asyncio.CancelledError)):
            world.run(work())
    finally:
        set_hooks([])
    assert renewed
    assert world.holder() is None
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_what_reads_returns_first_where_tasks_run_loops_inside_them(world):
    """As found: in a loop that nest_asyncio has patched, such a loop read nothing, for ever."""

    async def work() -> None:
        asyncio.get_running_loop()._nest_patched = True
        async with fencelock.AsyncClient(world.server.url, key_prefix=world.prefix) as client:
            for _ in range(2):
                async with client.lock("a"):
                    running = [each.f_code.co_name for each, _ in traceback.walk_stack(None)]
                    assert "buffer_updated" not in running

    world.run(work())


def test_a_closed_client_needs_no_hooks_for_generators(world, monkeypatch):
    """As found: loops of nest_asyncio set none, and Python complained as a client was collected."""
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    async def work() -> None:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            async with fencelock.AsyncClient(world.server.url) as client:
                assert not await client.lock(f"{world.prefix}a").locked()
            del client
            gc.collect()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    world.run(work())
    assert complaints == []


def test_a_loop_that_is_blocked_for_longer_than_the_ttl(world):
    """Nothing can be renewed meanwhile; the body is cancelled at its first await afterwards."""

    async def hold(client, seen) -> None:
        async with client.lock("a", ttl=0.5, on_lost="cancel") as lease:
            until(lambda: world.holder() is None)  # blocks, as a long calculation does
            seen.append(lease.lost)
            await asyncio.wait_for(asyncio.Event().wait(), SOON)

    async def work() -> None:
        client, seen = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix), []
        with pytest.raises(LeaseLost, match="expired"):
            await hold(client, seen)
        await client.aclose()
        assert seen == [True]

    world.run(work())


def test_a_loop_closed_while_holding(world):
    """The lease is renewed no more and ends by its ttl; another loop then gets the lock."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    lock = client.lock("a", ttl=60)

    async def hold() -> None:
        await lock.acquire()
        await client.aclose()

    world.run(hold())
    assert world.holder()
    assert world.server.command("PEXPIRE", f"{world.prefix}a", 100)  # in place of a long wait
    assert world.run(turn(client))

    async def too_late() -> None:
        with pytest.raises((LeaseLost, ClientClosed)):
            await lock.release()

    world.run(too_late())


def test_a_loop_that_ends_right_after_a_cancellation(world):
    """The undo is written before the cancellation goes on: the loop's end cannot lose it."""

    async def work() -> None:
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
        async with client.lock("b"):
            task = asyncio.create_task(client.lock("a", ttl=20).acquire())
            await asyncio.sleep(0)  # it has asked, and nothing was read since
            task.cancel()
            await asyncio.wait({task})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        world.run(work())
        gc.collect()
    until(lambda: world.holder() is None and not world.waiting(), "the undo")


def test_ctrl_c_in_a_loop_leaves_nothing(world):
    """asyncio.run turns SIGINT into a cancellation: those who wait and who hold let go."""

    async def work() -> None:
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
        async with client.lock("a", ttl=20):
            waiter = asyncio.create_task(turn(client, close=False))
            await world.in_line("a", 1)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait({waiter})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with (
            asyncio.Runner(loop_factory=LOOPS[world.face]) as runner,
            pytest.raises(KeyboardInterrupt),
        ):
            runner.run(work())
        gc.collect()
    until(lambda: world.holder() is None and not world.waiting(), "nothing is left")


def test_outside_of_a_loop_only_handles_are_made(world):
    """Making clients and handles needs no loop; using them does, and says so."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    lock = client.lock("a")
    assert "unlocked" in repr(lock)
    flow = lock.acquire()
    with pytest.raises(RuntimeError, match="loop"):
        flow.send(None)


@pytest.mark.parametrize(
    "kind", ["Python", pytest.param("C", marks=pytest.mark.slow), "C, in the copy of the loop"]
)
def test_fork_in_a_running_loop(server, kind):
    """The child holds nothing and works in a loop of its own; the parent goes on (I14)."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    done = subprocess.run(
        [*command, server.url, "forks:", kind],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert server.command("EXISTS", "forks:a") == 0


def test_a_client_that_is_dropped_says_so_and_closes_its_connection(world, caplog):
    """In our words: asyncio only knows of a transport."""

    async def story():
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
        async with client.lock("a"):
            assert world.connections()
        with pytest.warns(ResourceWarning, match="an AsyncClient of .* without aclose"):
            del client
        await world.until(lambda: not world.connections(), "the connection is closed")

    world.run(story())
    assert "was dropped without aclose(): use `async with`, or close it" in caplog.text


def test_many_loops_that_begin_at_once_keep_their_connections(world):
    """Each loop finds its own port again, and closes it: none replaces another's."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    begins, errors = threading.Barrier(8), []

    async def visit():
        begins.wait()
        port = client._port()
        for _ in range(50):
            await asyncio.sleep(0)
            if client._port() is not port:
                errors.append("another port")
        await client.aclose()

    for _ in range(20):
        threads = [threading.Thread(target=world.run, args=(visit(),)) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert errors == []


@pytest.fixture
def elsewhere():
    """Run coroutines in a second loop, in a thread of its own."""
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)
    running.start()
    yield lambda coroutine: asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    loop.close()


@pytest.mark.parametrize("cohort", [fencelock.Cohort(seconds=5), None], ids=["cohort", "strict"])
def test_a_lease_is_renewed_and_released_in_another_loop(world, elsewhere, cohort):
    """It is done in its own loop, whose tasks wait for the lock, and have their places there."""

    async def main() -> None:
        client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix, cohort=cohort)
        for number in range(5):
            lock, waiting = (client.lock(f"l{number}", ttl=30) for _ in range(2))
            await lock.acquire()
            job = asyncio.ensure_future(waiting.acquire())
            await world.in_line(f"l{number}", 1)
            await elsewhere(lock.lease.renew(ttl=60))
            assert lock.lease.remaining() > 40
            await elsewhere(lock.release())
            async with asyncio.timeout(0.5):
                assert await job
            await elsewhere(inside(waiting))
        async with client.multi(["m", "n"], ttl=30) as leases:
            await elsewhere(leases.renew())
        await elsewhere(client.aclose())
        await client.aclose()

    async def inside(held: fencelock.AsyncLock) -> None:
        assert await held.release() is None

    world.run(main())
    assert world.holder("l0") is None


def test_what_a_handle_holds_is_known_where_no_loop_runs(world):
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    lock = client.lock("a")
    assert lock.lease is None

    async def main() -> None:
        await lock.acquire()
        assert await asyncio.to_thread(lambda: lock.lease) is lock.lease is not None
        await lock.release()
        await client.aclose()

    world.run(main())
    assert lock.lease is None


def test_a_lease_whose_loop_has_ended_is_not_renewed_in_another(world):
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)
    lock = client.lock("a", ttl=30)

    async def renews() -> None:
        with pytest.raises(fencelock.ServerUnreachable, match="does not run any more"):
            await lock.lease.renew()
        await lock.release()
        await client.aclose()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio's, of an unclosed transport
        world.run(lock.acquire())
        world.run(renews())
        gc.collect()


def test_a_loop_that_has_ended_leaves_no_connection(world):
    """Frameworks run a loop for each request; forking services have no garbage collector."""
    client = fencelock.AsyncClient(world.server.url, key_prefix=world.prefix)

    async def uses() -> None:
        async with client.lock("a"):
            pass

    gc.disable()
    try:
        for _ in range(3):
            world.run(uses())
            until(lambda: not world.connections(), "the connection of the loop is closed")
    finally:
        gc.enable()


async def test_many_tasks_use_one_connection(world):
    """I10: a hundred at once, one connection."""
    client = world.client()
    client._port().link.silence = 60.0  # a server that stands still for a second gets no second one

    async def turn(number: int) -> None:
        async with client.lock(f"{number % 50}"):
            assert len(world.connections()) == 1

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(turn(number))


async def test_an_idle_client_has_no_task(world):
    """I10: nothing runs in the loop when nothing is to be done."""
    client = world.client()
    me = asyncio.current_task()
    async with client.lock("a"):
        await world.until(lambda: asyncio.all_tasks() == {me}, "no task while holding")
    await world.until(lambda: asyncio.all_tasks() == {me}, "no task afterwards")
