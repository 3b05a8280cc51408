"""``@client.locked``: a lock around each call, named by its arguments."""

import pytest

from fencelock import AcquireTimeout, LeaseLost, NotAcquired, Poll


async def test_a_call_holds_the_lock_that_its_arguments_name(world):
    client = world.client()
    seen = []

    @client.locked("order:{order_id}", ttl=20, label="billing")
    async def bill(order_id, *, cents=0):
        seen.append((world.holder("order:7"), world.holder("order:8"), world.pttl("order:7")))
        return order_id, cents

    assert await bill(7, cents=5) == (7, 5)
    (held, other, pttl), *more = seen
    assert held
    assert other is None
    assert 19_000 < pttl <= 20_000
    assert not more
    assert world.holder("order:7") is None


async def test_calls_of_one_name_take_turns_and_others_do_not(world):
    client = world.client()
    inside, order = set(), []
    gate = {"open": False}

    @client.locked("{key}")
    async def work(key, number):
        assert key not in inside
        inside.add(key)
        order.append((key, number))
        if key == "a" and number == 1:
            await world.until(lambda: gate["open"], "the gate")
        inside.remove(key)

    first = world.start(work("a", 1))
    await world.until(lambda: order == [("a", 1)])
    second = world.start(work("a", 2))
    await world.in_line("a", 1)
    await work("b", 1)
    gate["open"] = True
    await first.result()
    await second.result()
    assert order == [("a", 1), ("b", 1), ("a", 2)]


@pytest.mark.parametrize(
    "wait",
    [None, pytest.param(Poll(interval=0.02), marks=pytest.mark.no_quorum)],
    ids=["queue", "poll"],
)
async def test_a_busy_lock_skips_raises_or_times_out(world, wait):
    client = world.client()
    options = {"wait": wait} if wait else {}
    called = []

    def decorated(**more):
        @client.locked("a", **options, **more)
        async def work():
            called.append(more)
            return "did"

        return work

    async with world.client().lock("a"):
        assert await decorated(on_busy="skip")() is None
        assert await decorated(on_busy="skip", timeout=0.05)() is None
        with pytest.raises(NotAcquired, match="held, or other waiters come first") as busy:
            await decorated(on_busy="raise")()
        assert not isinstance(busy.value, AcquireTimeout)
        assert busy.value.name == "a"
        with pytest.raises(AcquireTimeout, match="within"):
            await decorated(timeout=0.05)()
    assert not called
    assert await decorated(on_busy="skip")() == "did"
    assert await decorated(on_busy="raise")() == "did"


async def test_a_call_from_within_itself_does_not_wait_for_itself(world):
    client = world.client()

    @client.locked("a")
    async def waits():
        return await waits()

    @client.locked("a", on_busy="skip")
    async def skips():
        return [await skips()]

    @client.locked("{depth}")
    async def another(depth):
        return await another(depth - 1) if depth else "bottom"

    with pytest.raises(NotAcquired, match="held by a call around this one"):
        await waits()
    assert await skips() == [None]
    assert await another(2) == "bottom"
    assert world.holder("a") is None


async def test_what_the_body_raises_is_not_taken_for_busy(world):
    client = world.client()

    @client.locked("a", on_busy="skip")
    async def work():
        raise NotAcquired("of the body")

    with pytest.raises(NotAcquired, match="of the body"):
        await work()
    assert world.holder("a") is None


async def test_the_function_is_given_its_lease(world):
    client = world.client()

    @client.locked("a", lease="mine")
    async def work(order, *, mine):
        mine.check()
        assert mine.holder == world.holder("a")
        return order, mine.fence

    first, second = [await work(number) for number in (1, 2)]
    assert (first[0], second[0]) == (1, 2)
    assert second[1] > first[1] > 0


async def test_methods_name_their_lock_by_themselves(world):
    client = world.client()

    class Order:
        def __init__(self, number):
            self.number = number

        @client.locked("order:{self.number}:{what}")
        async def bill(self, what="all"):
            return world.holder(f"order:{self.number}:{what}")

    assert await Order(7).bill()
    assert await Order(8).bill(what="part")


async def test_a_lease_that_ends_during_a_call_is_told(world):
    client = world.client()

    @client.locked("a")
    async def work():
        world.server.command("DEL", world.key("a"))

    with pytest.raises(LeaseLost):
        await work()


async def test_a_function_that_returns_a_coroutine_is_an_error(world):
    if not world.blocking:
        return

    async def body():
        raise AssertionError("it must not run")

    with pytest.raises(TypeError, match="returned a coroutine"):
        world.client().inner.locked("a")(lambda: body())()  # noqa: PLW0108 - that it is async must not show
    assert world.holder("a") is None
