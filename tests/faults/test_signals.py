"""Events, latches and barriers when requests, answers or messages are lost."""

import pytest

from fencelock import BarrierBroken, OutcomeUnknown, ServerUnreachable
from fencelock._core.keys import SignalKeys
from tests.faults.test_lost_replies import LOSSES, time_for
from tests.faults.world import PREFIX, Tasks, outcome, spawn, wait_until

SILENT = {"silence", "blackhole"}
UNKNOWN = (OutcomeUnknown, ServerUnreachable)
PLAYS = 3  # of what a slow machine may make miss
every_loss = pytest.mark.parametrize("how", LOSSES, ids=str)


class Made:
    """Makes handles of a face whose coroutines are run and waited for."""

    def __init__(self, face):
        self._face = face

    def __getattr__(self, kind):
        def make(*args, **options):
            handle = getattr(self._face.client, kind)(*args, **options)
            return Run(self._face, handle) if isinstance(self._face, Tasks) else handle

        return make


class Run:
    """A handle of the asyncio face, as the blocking face would have it."""

    def __init__(self, face, inner):
        self._face = face
        self.inner = inner

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if callable(value):
            return lambda *args, **options: self._face.run(value(*args, **options))
        return self._face.run(value) if hasattr(value, "__await__") else value


@pytest.fixture
def client(connect, proxy, request):
    """A client of the face under test behind the proxy."""
    how = request.node.callspec.params.get("how")
    return Made(connect(proxy.url, server_timeout=time_for(how) if how else 5))


@pytest.fixture
def other(connect, server):
    """Another client, on the server itself."""
    return Made(connect(server.url))


def on_list(server, name):
    return server.command("ZCARD", SignalKeys(PREFIX, name).watch[1])


@every_loss
def test_a_count_counts_once(client, other, proxy, name, how):
    latch = client.latch(name, 3)
    fault = proxy.on("latch", how.action, then=how.then)
    result, _ = outcome(latch.count_down)
    fault.wait()
    if how.then in SILENT:
        assert isinstance(result, UNKNOWN)
        assert other.latch(name, 3).count() in {2, 3}
    else:
        assert result == 2
        assert other.latch(name, 3).count() == 2


@every_loss
def test_a_wait_whose_question_is_lost_hears_of_a_set_and_clear(client, other, proxy, name, how):
    """Played again where a slow machine sends the second question as late as the set came."""
    results = []
    for play in range(PLAYS):
        results.append(_set_while_a_question_is_lost(client, other, proxy, f"{name}-{play}", how))
        if results[-1] is True or (how.then in SILENT and isinstance(results[-1], UNKNOWN)):
            return
    raise AssertionError(f"it never heard of the set: {results}")


def _set_while_a_question_is_lost(client, other, proxy, name, how):
    fault = proxy.on("event_wait", how.action, then=how.then)
    waiting = spawn(outcome, client.event(name).wait, 10)
    fault.wait()
    writer = other.event(name)
    writer.set()
    writer.clear()
    result, _ = waiting.result(20)
    wait_until(lambda: on_list(proxy.server, name) == 0, 5, "nobody is on the list")
    return result


def test_a_lost_message_costs_a_look(client, other, proxy, server, name):
    waiting = spawn(outcome, client.event(name).wait, 20)
    wait_until(lambda: on_list(server, name) == 1)
    fault = proxy.on("signal", "drop_push")
    writer = other.event(name)
    writer.set()
    fault.wait()
    writer.clear()
    result, took = waiting.result(20)
    assert result is True
    assert took < 10


def test_a_wait_that_comes_late_leaves_nobody_on_the_list(client, other, proxy, server, name):
    event, writer = client.event(name), other.event(name)
    writer.set()
    assert event.wait(5)  # a connection that was used before is given up while it is silent
    writer.clear()
    asked = proxy.seen["event_wait"]
    fault = proxy.on("event_wait", "delay_request")
    waiting = spawn(outcome, event.wait, 20)
    fault.wait()
    wait_until(lambda: on_list(server, name) == 1, 5, "it asked again")
    writer.set()
    assert waiting.result(20)[0] is True
    writer.clear()
    fault.release()
    wait_until(lambda: proxy.seen["event_wait"] == asked + 4, 5, "each copy is undone")
    wait_until(lambda: on_list(server, name) == 0, 5, "nobody is on the list")


@pytest.mark.either_face
@pytest.mark.parametrize("kind", ["event", "latch"])
@pytest.mark.parametrize("after", ["deleted", "made anew", "made a lock"])
def test_a_lost_message_is_made_up_for_although_the_state_is_deleted(  # noqa: PLR0917 - fixtures, by name
    client, other, proxy, name, kind, after
):
    server = proxy.server

    def state(at, count=1):
        return at.event(name) if kind == "event" else at.latch(name, count)

    waiting = spawn(outcome, state(client).wait, 20)
    wait_until(lambda: on_list(server, name) == 1)
    fault = proxy.on("signal", "drop_push")
    ender = state(other)
    ender.set() if kind == "event" else ender.count_down()
    fault.wait()
    ender.delete()
    if after == "made anew":
        later = state(other, 2)
        later.clear() if kind == "event" else later.count_down()
    elif after == "made a lock":
        assert server.command("SET", PREFIX + name, "of another program") == "OK"
    result, _ = waiting.result(25)
    assert result is True
    if after == "deleted":
        assert server.command("EXISTS", PREFIX + name) == 0


@pytest.mark.either_face
@pytest.mark.parametrize("after", ["deleted", "made anew"])
def test_a_barrier_that_passed_did_so_for_all_although_it_is_deleted(
    client, other, proxy, name, after
):
    server = proxy.server
    waiting = spawn(outcome, client.barrier(name, 2).wait, 20)
    wait_until(lambda: server.command("HGET", PREFIX + name, "count") == "1")
    fault = proxy.on("signal", "drop_push")
    assert other.barrier(name, 2).wait(15) == 1
    fault.wait()
    other.barrier(name, 2).delete()
    if after == "made anew":
        others = spawn(outcome, other.barrier(name, 3).wait, 1)
    assert waiting.result(25)[0] == 0
    if after == "made anew":
        assert isinstance(others.result(10)[0], BarrierBroken)


@every_loss
def test_a_party_arrives_once(client, other, proxy, name, how):
    server = proxy.server
    fault = proxy.on("barrier_arrive", how.action, then=how.then)
    coming = spawn(outcome, client.barrier(name, 2).wait, 3 if how.then in SILENT else 15)
    fault.wait()
    if how.then in SILENT:
        result, _ = coming.result(20)
        assert isinstance(result, (*UNKNOWN, BarrierBroken))
        return
    wait_until(lambda: server.command("HGET", PREFIX + name, "count") == "1", 5, "one has come")
    assert other.barrier(name, 2).wait(15) == 1
    assert coming.result(20)[0] == 0
    assert other.barrier(name, 2).n_waiting == 0
