"""``once``: of many, one runs; the others go on, or wait for what it came to."""

import asyncio
import os
import socket

import pytest

from fencelock import (
    AcquireTimeout,
    LeaseLost,
    NotAcquired,
    OutcomeUnknown,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock._core.keys import ONCE_KINDS, derived
from fencelock._handles.once import RESULT_BYTES_MAX
from fencelock._runtime.clock import now

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py

HOUR = 3600


def result_key(world, name):
    (key,) = derived(world.prefix.encode(), world.key(name).encode(), ONCE_KINDS)
    return key


def gated(world, runs, value="drawn"):
    """Return a function that notes its run and ends when it may."""
    gate = {"open": False}

    async def draw(*args):
        runs.append(args)
        await world.until(lambda: gate["open"], "the gate")
        return value

    return draw, lambda: gate.update(open=True)


async def test_the_first_runs_and_later_ones_read_its_result(world):
    runs = []

    async def draw(*names, count):
        runs.append(names)
        return {"winners": list(names[:count])}

    one = await world.client().once("draw", within=HOUR).run(draw, "a", "b", count=1)
    two = await world.client().once("draw", within=HOUR, wait=True).run(draw, "c", count=1)
    assert runs == [("a", "b")]
    assert (one.ran, one.done, two.ran, two.done) == (True, True, False, True)
    assert one.value == two.value == {"winners": ["a"]}
    assert one.fence == two.fence > 0
    assert two.by
    assert 0 == one.started == one.ended < two.started <= two.ended
    assert world.holder("draw") is None


async def test_who_comes_during_the_run_returns_at_once(world):
    runs = []
    draw, let_go = gated(world, runs)
    first = world.start(world.client().once("draw", within=HOUR).run(draw))
    await world.until(lambda: runs)
    outcome = await world.client().once("draw", within=HOUR).run(draw)
    looked = await world.client().once("draw", within=HOUR).outcome()
    record = world.server.command("GET", world.keys("draw").grant[1])
    for seen in (outcome, looked):
        assert (seen.ran, seen.done) == (False, False)
        assert seen.by == f"{socket.gethostname()}:{os.getpid()}"
        assert seen.fence == int(record.split()[0])
        assert seen.started == pytest.approx(seen.fence / 1e6)
        assert seen.ended == 0
        assert seen.by in repr(seen)
        with pytest.raises(LookupError, match="has no result"):
            _ = seen.value
    let_go()
    assert (await first.result()).ran
    assert len(runs) == 1


@pytest.mark.one_server  # counts commands: in a Cluster who waited long asks again
async def test_who_waits_reads_the_result_and_all_are_told_at_once(world):
    runs = []
    draw, let_go = gated(world, runs)
    clients = [world.client() for _ in range(4)]

    async def nothing():
        pass

    await clients[0].once("warm", within=HOUR).run(nothing)  # the server knows the scripts
    jobs = [
        world.start(client.once("draw", within=HOUR, wait=True).run(draw)) for client in clients
    ]
    await world.in_line("draw", 3)
    with world.commands() as sent:
        let_go()
        outcomes = [await job.result() for job in jobs]
    assert sorted(outcome.ran for outcome in outcomes) == [False, False, False, True]
    assert {outcome.value for outcome in outcomes} == {"drawn"}
    assert len(runs) == 1
    assert world.waiting("draw") == 0
    assert sent.scripts == 1  # the end of the run; each waiter reads the result by one GET


async def test_a_run_from_within_itself_does_not_wait_for_itself(world):
    client = world.client()
    once = client.once("draw", within=HOUR)
    waits = client.once("draw", within=HOUR, wait=True)

    async def inner():
        raise AssertionError("it must not run")

    async def skips():
        return (await once.run(inner)).done

    async def waits_for_itself():
        await waits.run(inner)

    with pytest.raises(NotAcquired, match="held by a call around this one"):
        await waits.run(waits_for_itself)
    assert world.holder("draw") is None
    assert (await once.run(skips)).value is False


@pytest.mark.parametrize("outer", ["once", "locked"])
async def test_a_nested_call_does_not_hide_the_call_around_it(world, outer):
    """The second level is refused or skipped; the third is still within the first."""
    client = world.client()
    skips = client.once("draw", within=HOUR)
    waits = client.once("draw", within=HOUR, wait=True, timeout=2)
    seen = []

    async def never():
        raise AssertionError("it must not run")

    async def works():
        seen.append((await skips.run(never)).done)
        for _ in "12":
            with pytest.raises(NotAcquired, match="held by a call around this one"):
                await waits.run(never)
            seen.append((await skips.run(never)).done)

    if outer == "once":
        assert (await skips.run(works)).ran
    else:
        await client.locked("draw")(works)()
    assert seen == [False] * 3
    assert (await waits.run(works if outer == "once" else never_runs)).done


async def never_runs():
    return None


async def test_a_wait_ends_in_time_and_leaves_nothing(world):
    runs = []
    draw, let_go = gated(world, runs)
    first = world.start(world.client().once("draw", within=HOUR).run(draw))
    await world.until(lambda: runs)
    with pytest.raises(AcquireTimeout, match="was not done within"):
        await world.client().once("draw", within=HOUR, wait=True, timeout=0.1).run(draw)
    assert world.waiting("draw") == 0
    let_go()
    await first.result()


async def test_a_failed_run_is_taken_over_by_the_next_in_line(world):
    runs = []
    gate = {"open": False}

    async def fails():
        runs.append("failed")
        await world.until(lambda: gate["open"])
        raise ZeroDivisionError

    async def works():
        runs.append("worked")
        return 1

    first = world.start(world.client().once("draw", within=HOUR).run(fails))
    await world.until(lambda: runs)
    second = world.start(world.client().once("draw", within=HOUR, wait=True).run(works))
    await world.in_line("draw", 1)
    gate["open"] = True
    with pytest.raises(ZeroDivisionError):
        await first.result()
    assert (await second.result()).ran
    assert runs == ["failed", "worked"]
    assert not (await world.client().once("draw", within=HOUR).run(fails)).ran


async def test_the_result_is_kept_from_the_start_of_the_run(world):
    async def quick():
        return None

    once = world.client().once("draw", within=HOUR)
    assert (await once.run(quick)).value is None
    assert 3_599_000 < world.server.command("PTTL", result_key(world, "draw")) <= 3_600_000


@pytest.mark.slow  # what is kept must be read before it expires
async def test_a_long_run_is_kept_for_a_part_of_the_period_after_its_end(world):
    runs = []
    draw, let_go = gated(world, runs)
    job = world.start(world.client().once("draw", within=3).run(draw))
    await world.until(lambda: runs)
    began = world.server.command("TIME")
    await world.until(lambda: world.elapsed_ms(began) > 3050)
    let_go()
    await job.result()
    assert 0 < world.server.command("PTTL", result_key(world, "draw")) <= 300


async def test_the_next_period_runs_again(world):
    async def draw():
        return "drawn"

    once = world.client().once("draw", within=0.05)
    assert (await once.run(draw)).ran
    await world.until(lambda: not world.server.command("EXISTS", result_key(world, "draw")))
    assert (await once.run(draw)).ran


async def test_it_can_be_looked_at_and_forgotten(world):
    async def draw():
        return b"\x00raw"

    once = world.client().once("draw", within=HOUR)
    seen = await once.outcome()
    assert (seen.done, seen.by, seen.fence) == (False, "", 0)
    assert await once.forget() is False
    await once.run(draw)
    seen = await once.outcome()
    assert (seen.ran, seen.done, seen.value) == (False, True, b"\x00raw")
    assert await once.forget() is True
    assert (await once.run(draw)).ran


@pytest.mark.parametrize(
    ("value", "error"),
    [(object(), TypeError), ("x" * RESULT_BYTES_MAX, ValueError), (float("nan"), TypeError)],
    ids=["no JSON", "too large", "NaN"],
)
async def test_a_result_that_cannot_be_kept_is_told_and_the_run_is_done(world, value, error):
    async def draw():
        return value

    once = world.client().once("draw", within=HOUR)
    with pytest.raises(error, match="cannot be stored"):
        await once.run(draw)
    outcome = await once.run(draw)
    assert (outcome.ran, outcome.done) == (False, True)
    with pytest.raises(LookupError, match="could not be stored"):
        _ = outcome.value


async def test_every_process_gets_the_same_value(world):
    async def draw():
        return (1, {2: "two"})

    outcomes = [await world.client().once("draw", within=HOUR).run(draw) for _ in range(2)]
    assert [each.value for each in outcomes] == [[1, {"2": "two"}]] * 2


async def test_as_a_decorator_the_arguments_name_what_is_run(world):
    runs = []

    @world.client().once("draw:{day}", within=HOUR, lease="lease")
    async def draw(day, lease=None):
        runs.append((day, lease.fence))
        return day

    outcomes = [await draw(day) for day in ("mon", "tue", "mon")]
    assert [each.ran for each in outcomes] == [True, True, False]
    assert [each.value for each in outcomes] == ["mon", "tue", "mon"]
    assert [day for day, _ in runs] == ["mon", "tue"]
    assert outcomes[0].fence == runs[0][1]


async def test_the_run_holds_the_lock_of_that_name_and_is_renewed(world):
    runs = []
    draw, let_go = gated(world, runs)
    job = world.start(world.client().once("draw", within=HOUR, ttl=2).run(draw))
    await world.until(lambda: runs)
    assert not await world.client().lock("draw").acquire(blocking=False)
    left = [world.pttl("draw")]
    await world.until(lambda: left.append(world.pttl("draw")) or left[-1] > left[-2], "a renewal")
    let_go()
    assert (await job.result()).ran


async def test_a_lock_of_that_name_waits_for_its_turn(world):
    """Who waits for the lock is not told that it is granted when the run is done."""
    runs = []
    draw, let_go = gated(world, runs)
    job = world.start(world.client().once("draw", within=HOUR).run(draw))
    await world.until(lambda: runs)
    reader = world.start(world.client().once("draw", within=HOUR, wait=True).run(draw))
    await world.in_line("draw", 1)
    lock = world.client().lock("draw")
    locker = world.start(lock.acquire())
    await world.in_line("draw", 2)
    let_go()
    await job.result()
    assert not (await reader.result()).ran
    assert await locker.result()
    assert lock.lease.fence > 0
    assert world.holder("draw") == lock.lease.holder
    await lock.release()


async def test_a_run_whose_lease_was_taken_says_so(world):
    async def draw():
        world.server.command("SET", world.key("draw"), "another", "PX", 20_000)

    once = world.client().once("draw", within=HOUR)
    with pytest.raises(LeaseLost):
        await once.run(draw)
    assert not (await once.outcome()).done


async def test_a_run_whose_lease_just_ended_is_kept_when_nobody_else_began(world):
    async def draw():
        world.server.command("DEL", world.key("draw"))
        return "drawn"

    once = world.client().once("draw", within=HOUR)
    assert (await once.run(draw)).ran
    assert (await once.run(draw)).value == "drawn"


async def test_a_run_that_outlasts_its_lease_is_notified_and_kept_when_nobody_else_began(world):
    """The end of the run is the first to notice that the lease is over."""
    told = []

    async def draw(lease):
        while lease.remaining() > 0.01:  # without letting others run
            pass
        end = lease.deadline
        while now() < end:
            pass
        return "drawn"

    client = world.client()
    once = client.once(
        "draw", within=HOUR, ttl=0.5, renew=False, lease="lease", on_lost=told.append
    )
    assert (await once.run(draw)).ran
    await world.until(lambda: told, "on_lost")
    assert [each.lost for each in told] == [True]
    assert (await client.once("draw", within=HOUR).outcome()).value == "drawn"


async def test_a_run_that_an_operator_revoked_is_not_kept(world):
    keys = world.keys("draw")

    async def draw():
        holder = world.holder("draw")
        world.server.command("SET", keys.revoked, f"{holder} stop", "PX", 20_000)
        world.server.command("DEL", world.key("draw"))

    once = world.client().once("draw", within=HOUR)
    with pytest.raises(LeaseLost) as lost:
        await once.run(draw)
    assert (lost.value.reason, lost.value.detail) == ("revoked", "stop")


async def test_a_key_of_another_kind_is_told_before_anything_is_changed(world):
    async def draw():
        raise AssertionError("it must not run")

    world.server.command("HSET", world.key("draw"), "kind", "event")
    world.server.command("PEXPIRE", world.key("draw"), 20_000)
    for wait in (True, False):
        with pytest.raises(ServerUnsuitable):
            await world.client().once("draw", within=HOUR, wait=wait).run(draw)
    assert world.server.command("KEYS", f"{world.prefix}*") == [world.key("draw")]


@pytest.mark.one_server
async def test_a_server_that_is_gone_is_told_and_what_ran_is_told_to_it_later(world):
    server = world.alone()

    async def draw():
        server.pause()

    client = world.client(server_timeout=0.3)
    once = client.once("draw", within=HOUR)
    with pytest.raises((OutcomeUnknown, ServerUnreachable)):
        await once.run(draw)
    server.resume()
    key = result_key(world, "draw")
    await world.until(lambda: server.command("EXISTS", key), "the result")


@pytest.mark.one_server
async def test_names_of_any_form_and_their_results_share_a_slot(world):
    from tests.conformance.world import cluster_node  # noqa: PLC0415 - started for this alone

    async def draw():
        return 1

    client = world.client(cluster_node(world.server.binary).url)
    for name in ("a", "{tag}x", "a}b{", "{}", "é \n"):
        assert [(await client.once(name, within=HOUR).run(draw)).ran for _ in "12"] == [True, False]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"within": 0}, "within must be above 0"),
        ({"within": 1e12}, "within must be at most"),
        ({"within": HOUR, "timeout": 1}, "timeout needs wait=True"),
        ({"within": HOUR, "ttl": 0}, "ttl must be"),
    ],
)
async def test_an_option_that_cannot_work_is_refused(world, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        world.client().once("draw", **options)


@pytest.mark.parametrize("value", ["7", "a b c d e f g", "1 h 2 3 json 2 ??x", "é"])
async def test_a_result_of_another_program_is_refused_as_such(world, value):
    async def draw():
        raise AssertionError("it ran beside another program")

    once = world.client().once("draw", within=HOUR)
    world.server.command("SET", result_key(world, "draw"), value, "EX", 60)
    for use in (once.run(draw), once.outcome(), once.forget()):
        with pytest.raises(ServerUnsuitable, match=r"draw.* a value of another program") as error:
            await use
        assert error.value.code == "WRONGTYPE"


async def test_a_loss_can_cancel_a_run(world):
    if world.blocking:
        return

    async def draw():
        world.server.command("SET", world.key("draw"), "another", "PX", 20_000)
        await asyncio.get_running_loop().create_future()

    once = world.client().once("draw", within=HOUR, ttl=0.3, on_lost="cancel")
    with pytest.raises(LeaseLost):
        await once.run(draw)
