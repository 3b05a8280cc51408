"""The search for a shortest schedule; worlds with several servers, replicas, jumping clocks."""

from dataclasses import replace

import pytest

from fencelock._core.types import NoReply
from fencelock.errors import ServerError
from fencelock.scripts import Script
from tests.flows import scenarios as worlds
from tests.flows.sowing import script
from verification.simulator import shortest as module
from verification.simulator.explorer import Explorer
from verification.simulator.monitor import Monitor
from verification.simulator.port import SimulatedPort
from verification.simulator.server import EPOCH_US, Server
from verification.simulator.shortest import faults, shortest
from verification.simulator.simulation import World
from verification.simulator.steps import options

UNASKED = script("release", "if redis.pcall('GET', KEYS[1]) ~= holder then", "if false then")
SOWN = replace(worlds.TWO_FIXED, sources={"release": UNASKED.source()}).under(expiry=1, late=1)


def cost(path):
    return faults(list(path)), len(path)


def server():
    return Server(SOWN.sources)


@pytest.mark.nightly
def test_a_shortest_schedule_needs_no_more_than_the_first_that_is_found():
    search = Explorer(SOWN.build, server())
    deep = search.run(seconds=worlds.SECONDS, schedules=100_000)
    short = shortest(SOWN.build, server())
    (path,) = short.found.values()
    assert deep.violation is not None
    assert cost(path) <= cost(deep.schedule)
    assert not short.complete


class Forgetful(set):
    """Holds nothing against a state: each is prolonged as often as it is met."""

    def __contains__(self, _state):
        return False


@pytest.mark.nightly
def test_to_leave_out_states_that_were_met_makes_it_no_longer():
    search = module._Search(SOWN.build, server(), lambda _: True)
    search._seen = Forgetful()
    (plain,) = search.run(20_000).found.values()
    (path,) = shortest(SOWN.build, server()).found.values()
    assert cost(path) == cost(plain)


def test_it_says_when_there_is_none():
    report = shortest(worlds.TWO.under(lost=1).build, Server())
    assert (report.complete, report.found) == (True, {})


def test_a_budget_of_schedules_is_kept():
    report = shortest(worlds.TWO.under(lost=1).build, Server(), schedules=10)
    assert not report.complete
    assert report.schedules < 20  # it ends between two states


@pytest.mark.nightly
def test_only_what_is_wanted_counts():
    report = shortest(SOWN.build, server(), wanted=lambda name: name == "no such name")
    assert (report.complete, report.found) == (True, {})


# --- several servers ------------------------------------------------------------------------------


class Unjudged(Monitor):
    """Lets a world do what it likes."""

    def served(self, request, before):
        pass

    def end(self):
        pass


def act(world, *names):
    """Take steps by their names, and all that follow without a choice of faults."""
    for name in names:
        world.act(next(each for each in options(world) if each[0] == name))


def asking(budgets, servers, *, replicas=False):
    """Return a world with a process that sets a key on each server, and its answers."""
    made = [Server(replicated=replicas) for _ in range(servers)]
    world = World(made[0], others=made[1:], budgets=budgets, monitor=Unjudged)
    client = world.client(shared=False, keeper=False)
    ports = [SimulatedPort(world, client, shared=False, server_timeout=5.0, server=s) for s in made]
    answers = []

    async def asks():
        for port in ports:
            try:
                words = (b"SET", b"k", b"v", b"NX", b"PX", 1000)
                answers.append(await port.command(words, b"", port.now() + 5.0))
            except NoReply:
                answers.append("broken")

    world.start(client, asks())
    return world, made, answers


def test_servers_know_nothing_of_each_other():
    world, made, answers = asking({}, 2)
    act(world, "serve", "hear")
    assert [bool(each.living()) for each in made] == [True, False]
    act(world, "serve", "hear")
    assert answers == [b"OK", b"OK"]
    assert [bool(each.living()) for each in made] == [True, True]
    world.close()


def test_one_server_restarts_and_the_other_keeps_what_it_has():
    world, made, _ = asking({"restart": 1}, 2)
    act(world, "serve", "hear", "serve", "hear")
    world.act(("restart", 1))
    assert [bool(each.living()) for each in made] == [True, False]
    assert [link.sound for link in world.clients[0].links] == [True, False]
    world.close()


def test_a_clock_that_jumps_ends_the_keys_of_that_server_only():
    world, made, _ = asking({"jump": 1}, 2)
    act(world, "serve", "hear", "serve", "hear")
    world.act(("jump", 0))
    assert [bool(each.living()) for each in made] == [False, True]
    assert made[0].now_us - made[1].now_us == 10_000_000
    world.pass_to(500)
    assert made[1].now_us == EPOCH_US + 500
    assert made[0].now_us == made[1].now_us + 10_000_000
    world.close()


def test_a_promoted_replica_has_what_it_got():
    for copied in (False, True):
        world, made, _ = asking({"failover": 1}, 1, replicas=True)
        act(world, "serve", "hear", *["copy"] * copied)
        world.act(("failover", 0))
        assert bool(made[0].living()) is copied
        assert ("failover", 0) not in options(world)
        world.close()


def test_no_more_faults_strike_than_may_in_all():
    made = Server()
    world = World(made, budgets={"back": 1, "jump": 1}, faults_max=1, monitor=Unjudged)
    client = world.client(keeper=False)
    world.start(client, client.port.sleep(client.port.now() + 1.0))
    assert {("back", 0), ("jump", 0)} <= set(options(world))
    world.act(("jump", 0))
    assert options(world) == [("pass",)]
    world.close()


def test_in_a_cluster_a_script_touches_one_slot_only():
    made = Server({"two": b"return 1"}, cluster=True)
    world = World(made, monitor=Unjudged)
    client = world.client(shared=False, keeper=False)
    errors = []

    async def asks():
        try:
            await client.port.call(Script("two"), (b"a", b"b"), (), 1e9)
        except ServerError as error:
            errors.append(error.code)

    world.start(client, asks())
    act(world, "serve", "hear")
    assert errors == ["CROSSSLOT"]
    world.close()
