"""The checker of orders: what it reports though nothing deadlocks, and what it leaves alone."""

import pytest

import fencelock
from fencelock.instrumentation import OrderChecker, OrderViolation, order_shared, set_hooks

A, B = "a:{}", "b:{}"


@pytest.fixture
def checker():
    made = OrderChecker()
    set_hooks([made])
    yield made
    set_hooks([])


def pair(client, number=1):
    """Return a lock of each class."""
    return client.lock(f"a:{number}", template=A), client.lock(f"b:{number}", template=B)


@pytest.mark.one_play  # a second play has such a hook
async def test_two_orders_that_meet_are_reported_with_both_places(world, checker, caplog):
    a, b = pair(world.client())
    async with a, b:
        pass
    c, d = pair(world.client(), 2)  # other names: nothing can deadlock now
    async with d, c:
        pass
    (report,) = checker.reports
    assert report.classes == (B, A)
    assert {step.first: step.second for step in report.steps} == {A: B, B: A}
    for step in report.steps:
        assert any(f"{__file__}:" in place for place in (*step.held_at, *step.wanted_at))
    assert sum("in different orders" in each.message for each in caplog.records) == 1


@pytest.mark.one_face
async def test_one_order_is_not_reported_however_often(world, checker):
    a, b = pair(world.client())
    for _ in range(3):
        async with a, b:
            pass
    assert checker.reports == ()


async def test_a_try_teaches_no_order_but_what_it_took_is_held(world, checker):
    a, b = pair(world.client())
    async with a:
        assert await b.acquire(blocking=False)
        await b.release()
    async with b:
        assert await a.acquire(blocking=False)
        await a.release()
    assert checker.reports == ()
    assert await a.acquire(blocking=False)
    async with b:  # the try of a, then a wait for b: an order
        pass
    await a.release()
    async with b, a:
        pass
    assert len(checker.reports) == 1


async def test_other_threads_and_tasks_hold_for_themselves(world, checker):
    a, b = pair(world.client())

    async def other():
        async with a:
            pass

    async with a, b:
        pass
    async with b:
        await world.start(other()).result()
    assert checker.reports == ()


async def test_what_was_released_or_lost_is_not_held(world, checker):
    a, b = pair(world.client())
    async with a:
        pass
    async with b:
        pass
    lost = world.client().lock("a:9", template=A, ttl=0.1, renew=False)
    assert await lost.acquire()
    await world.until(lambda: not checker._held, "the loss")
    async with b, a:
        pass
    assert checker.reports == ()
    async with a:
        async with world.client().lock("c"):
            pass
        async with b:  # a is held still
            pass
    assert len(checker.reports) == 1


@pytest.mark.one_face
async def test_two_of_one_class(world, checker):
    client = world.client()
    first, second = client.lock("a:1", template=A), client.lock("a:2", template=A)
    async with first, second:
        pass
    async with first, second:
        pass
    (report,) = checker.reports
    assert report.classes == (A,)
    assert "multi" in str(report)


@pytest.mark.one_face
async def test_two_of_one_class_in_the_order_that_was_given(world):
    made = OrderChecker(ordered={A: str})
    set_hooks([made])
    try:
        client = world.client()
        first, second = client.lock("a:1", template=A), client.lock("a:2", template=A)
        async with first, second:
            assert made.reports == ()
        async with second, first:
            assert len(made.reports) == 1
    finally:
        set_hooks([])


@pytest.mark.one_face
@pytest.mark.no_quorum
async def test_a_multi_sorts_its_names(world, checker):
    client = world.client()
    async with client.multi([client.lock("a:1", template=A), client.lock("b:1", template=B)]):
        pass
    async with client.multi([client.lock("b:0", template=A), client.lock("a:0", template=B)]):
        pass
    async with client.multi(["c", "d"], template="c"):
        pass
    assert checker.reports == ()
    a, b = pair(client)
    async with b, a:
        pass
    assert len(checker.reports) == 1


@pytest.mark.one_face
@pytest.mark.no_quorum
async def test_readers(world, checker):
    client = world.client()
    a, b = client.rwlock("a:1", template=A), client.rwlock("b:1", template=B)
    async with a.read, b.read:
        pass
    async with b.read, a.read:
        pass
    assert checker.reports == ()
    async with a.write:
        pass
    async with b.write:
        pass
    assert len(checker.reports) == 1
    async with a.read, client.rwlock("a:2", template=A).read:  # two of a class that is written
        pass
    assert len(checker.reports) == 2


@pytest.mark.one_face
@pytest.mark.no_quorum
async def test_entering_again_is_no_order(world, checker):
    client = world.client()
    lock, sides = client.rlock("a"), client.rwlock("b")
    async with lock, lock, sides.write, sides.read:
        pass
    assert checker.reports == ()


async def test_a_strict_checker_refuses_before_anything_is_sent(world):
    made = OrderChecker(strict=True)
    set_hooks([made])
    try:
        a, b = pair(world.client())
        async with a, b:
            pass
        async with b:
            with pytest.raises(OrderViolation, match="in different orders") as refused:
                await a.acquire()
        assert refused.value.report in made.reports
        assert not await a.locked()
        async with a:  # alone it is fine
            pass
    finally:
        set_hooks([])


@pytest.mark.no_quorum
@pytest.mark.one_face
async def test_two_services_that_never_met(world, monkeypatch):
    """Each has its own client, and its own checker: only the server knows both.

    Nothing is sent before ``sync``, which sends several orders at once.
    """
    monkeypatch.setattr(order_shared, "started", lambda _: RuntimeError("no thread is left"))
    options = {"key_prefix": world.prefix}
    source = getattr(world.server, "client_options", {})
    reports = []
    clients = [fencelock.Client(world.server.url, **options, **source) for _ in range(2)]
    checkers = [OrderChecker(client=each, on_report=reports.append) for each in clients]
    for number, checker in enumerate(checkers):
        set_hooks([checker])
        try:
            a, b = pair(world.client())
            c = world.client().lock("c")
            if number:
                async with c, b:
                    pass
            else:
                async with a, b, c:
                    pass
            checker.sync()
        finally:
            set_hooks([])
    assert checkers[0].reports == ()
    (report,) = checkers[1].reports
    assert reports == [report]
    assert set(report.classes) == {B, "c"}
    assert world.server.command("PTTL", world.key("~orders")) > 0
    for each in clients:
        each.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on_report": 1}, TypeError),
        ({"ordered": ["a"]}, TypeError),
        ({"ordered": {"a": 1}}, TypeError),
        ({"client": object()}, TypeError),
    ],
)
def test_wrong_options(options, error):
    with pytest.raises(error):
        OrderChecker(**options)
