"""The ladder of broken locks: its page is true, its schedules break real servers, too."""

from dataclasses import replace

import pytest

from tests.flows.sowing import script
from tests.flows.worlds import locks
from verification.ladder import ours
from verification.ladder.chart import run
from verification.ladder.judge import TWO
from verification.ladder.page import CHINESE, LANGUAGES, NUMBER, page, section
from verification.ladder.real import actual
from verification.ladder.replay import all_breaks, possible, replay
from verification.ladder.rung import SCRIPTS
from verification.ladder.rungs import RUNGS
from verification.simulator.steps import options

BREAKS = [pytest.param(how, id=f"{name}: {how.wanted}") for name, how in all_breaks()]


STALE = "stale: python -m verification.ladder --write"


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_each_version_is_broken_as_the_pages_say(rung):
    for each in LANGUAGES:
        assert section(rung, each.say) in each.page.read_text(), STALE


@pytest.mark.slow  # explores fencelock, too
@pytest.mark.timeout(180)
def test_the_pages_are_what_was_found():
    stale = [each.page.name for each in LANGUAGES if page(each) != each.page.read_text()]

    assert stale == [], STALE


@pytest.mark.slow  # as above
@pytest.mark.timeout(180)
def test_every_sentence_of_the_translation_is_needed():
    said = set()
    page(LANGUAGES[0]._replace(say=lambda text: said.add(NUMBER.sub("{}", text)) or text))

    assert CHINESE.keys() == said


@pytest.mark.parametrize("how", [each for each in BREAKS if each.values[0].mended])
def test_the_mended_version_is_had_and_not_broken(how):
    """Nothing breaks, and not since nobody ever has it."""
    mended = how.with_mended()
    assert (mended.search.complete, mended.search.found) == (True, {})
    world = mended.world(mended.servers())
    while (choices := options(world)) and not any("●" in e.text for e in world.monitor.events):
        world.act(choices[0])
    assert choices
    world.close()


def test_what_remains_is_refused_by_the_fence():
    for how in ours.REMAINS:
        judge = run(how.world(how.servers()), how.path)
        assert judge.broken.keys() - {TWO} == {ours.STALE}
        assert judge.events[-1].text.endswith("REFUSED by the fence")


@pytest.mark.slow  # real leases, up to three seconds each
@pytest.mark.parametrize("how", BREAKS)
def test_a_real_server_shows_the_same_break(how):
    if not possible(how):
        pytest.skip("to set a server's clock takes Linux and a C compiler")
    result = replay(how)
    assert result.same, result.words


# --- each of these instruments can fail -----------------------------------------------------------

UNASKED = script("release", "if redis.pcall('GET', KEYS[1]) ~= holder then", "if false then")


def test_a_defect_sown_into_fencelock_is_found():
    scenario = locks.TWO_FIXED
    sources = scenario.sources | {"release": UNASKED.source()}
    report = ours.Bound(replace(scenario, sources=sources), 1).search(seconds=30)
    assert report.violation is not None


def test_claims_that_exclude_each_other_are_seen_without_any_invariant():
    """As if the server had granted to both: the judge of claims needs no knowledge of servers."""
    scenario = locks.TWO_WORKING
    sources = scenario.sources | {"acquire": b"return redis.call('TIME')[1] .. ARGV[3]"}
    bound = ours.Bound(replace(scenario, sources=sources, monitor=Blind), 0)
    assert bound.search(seconds=30).violation.invariant == TWO


class Blind(locks.Monitor):
    """Sees no invariant."""

    def served(self, request, before):
        pass

    def check(self):
        pass


@pytest.mark.slow  # it waits for keys that never come
def test_a_real_server_that_answers_otherwise_is_not_the_same():
    how = next(each for rung in RUNGS for each in rung.breaks if "script" in rung.name)
    with actual(how, SCRIPTS) as servers:
        servers[0]._texts["set_expire"] = b"redis.call('SET', KEYS[1], 'x', 'EX', 9) return 1"
        judge = run(how.world(servers), how.path)
        assert servers[0].differences
        assert judge.events


@pytest.mark.slow  # starts a master and a replica
@pytest.mark.parametrize("copied", [False, True])
def test_a_real_replica_has_what_it_was_let_have(copied):
    how = next(each for rung in RUNGS for each in rung.breaks if each.replicated)
    with actual(how, SCRIPTS) as servers:
        world, server = how.world(servers), servers[0]
        for action in [("serve", 0, 0), ("hear", 0, 0), *[("copy", 0)] * copied]:
            world.act(action)
        for _ in range(50):  # time enough for a write to get there by itself
            server.real.command("PING")
        world.act(("failover", 0))
        assert bool(server.living()) is copied
        assert server.differences == []
        world.close()
