"""The explorer itself: its stories, bounds and states, the shortest schedule, worlds of servers."""

from contextlib import closing
from dataclasses import replace

import pytest

from fencelock._core.types import NoReply
from fencelock.errors import ServerError
from fencelock.scripts import Script
from tests.flows.exploring import under
from tests.flows.registry import WORLDS
from tests.flows.seeds.locks import SEEDS
from tests.flows.sowing import script
from tests.flows.worlds import locks as worlds
from tests.flows.worlds import quorums
from verification.simulator.explorer import Explorer, replay
from verification.simulator.monitor import Monitor
from verification.simulator.port import SimulatedPort
from verification.simulator.quorum_monitor import QuorumMonitor
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


def test_a_failing_schedule_is_told_line_by_line():
    seed = next(each for each in SEEDS if "deletes" in each.name)
    lines = seed.explore().story().splitlines()
    options = "3000 2000 0 home0 {}"
    said = f"A1 A1 A1 home0  3000 603000 {options}"
    assert f"server: acquire({said}) of A → b'1700" in lines[0]
    assert lines[-1].startswith("→ I5:")


def test_the_same_steps_give_the_same_run():
    server = Server()
    search = Explorer(worlds.TWO_LONG.under(lost=1).build, server)
    report = search.run(seconds=worlds.SECONDS, schedules=7)
    assert report.extent == "capped"
    path = list(search._path)
    assert replay(search._build, server, path) == replay(search._build, server, path)


def states(world, path):
    """Yield the state after each step of a schedule."""
    for step in path:
        world.act(step)
        yield world.key()


@pytest.mark.parametrize("subject", WORLDS)
def test_the_same_steps_lead_to_the_same_states(subject):
    """What has a name in one run only, such as an address in memory, would tell states apart."""
    for scenario in WORLDS[subject].daily[::20]:
        made, server = scenario.with_servers()
        search = Explorer(made.build, server)
        search.run(seconds=worlds.SECONDS, schedules=5)
        with closing(made.build(server, False)) as world:
            met = list(states(world, search._path))
            with closing(made.build(server, False)) as another:
                assert list(states(another, search._path)) == met


class Forgetful(set):
    """Says of every state that it is new: each is explored, or prolonged, as often as it is met."""

    def __contains__(self, _state):
        return False


def end_on_one(monitor):
    world = monitor._world
    return (world.server.state, world.now_us, *(each.history for each in world.clients))


def end_on_several(monitor):
    world = monitor._world
    losses = tuple((hold.holder_id, hold.loss) for _, hold in monitor.holds)
    return (world.now_us, losses, *(server.state for server in world.servers))


def ends(scenario, seen, monkeypatch):
    """Return all states in which a world's schedules may end."""
    found, judge, end = set(), Monitor, end_on_one
    if isinstance(scenario, quorums.Quorums):
        judge, end = QuorumMonitor, end_on_several
    monkeypatch.setattr(judge, "end", lambda monitor: found.add(end(monitor)))
    world, first = scenario.with_servers()
    search = Explorer(world.build, first)
    search._seen = seen
    assert search.run(seconds=worlds.SECONDS, schedules=100_000).complete
    return found


@pytest.mark.parametrize(
    "scenario",
    [
        *under(("lost", "late", "cancel", "crash"), worlds.TWO),
        *(quorums.ALONE_RENEWED, quorums.ALONE_RENEWED.under(crash=1)),
    ],
    ids=lambda each: each.name,
)
def test_a_state_met_twice_leads_nowhere_new(scenario, monkeypatch):
    """Nor met in another order, as what happens on several nodes has none."""
    assert ends(scenario, set(), monkeypatch) == ends(scenario, Forgetful(), monkeypatch)


@pytest.mark.nightly
def test_a_shortest_schedule_needs_no_more_than_the_first_that_is_found():
    search = Explorer(SOWN.build, server())
    deep = search.run(seconds=worlds.SECONDS, schedules=100_000)
    short = shortest(SOWN.build, server())
    (path,) = short.found.values()
    assert deep.violation is not None
    assert cost(path) <= cost(deep.schedule)
    assert not short.complete


def test_it_says_when_there_is_none():
    report = shortest(worlds.TWO.under(lost=1).build, Server())
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
