"""``once`` and elections among real processes: raced, killed and frozen."""

import pytest

from fencelock import OutcomeUnknown, ServerUnreachable
from tests.faults.world import View, outcome, spawn, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face

RUN = {"within": 3600, "wait": True, "ttl": 3}
# When the lease of a process that died or froze ends, the next in line looks a moment later.
LOOK_SECONDS = 0.1


def began(folder):
    return {int(path.name.partition("-")[2]) for path in folder.glob("began-*")}


def ends(folder):
    (folder / "go").touch()


@pytest.mark.slow
def test_of_eight_processes_one_runs_and_all_know_the_result(server, start, name, tmp_path):
    ends(tmp_path)
    children = start(server.url, count=8)
    asked = [child.ask("once", name, folder=str(tmp_path), **RUN) for child in children]
    outcomes = [each.result(20) for each in asked]
    assert [each["ran"] for each in outcomes].count(True) == 1
    (runner,) = began(tmp_path)
    assert {each["value"] for each in outcomes} == {runner}
    assert View(server, name).free()


@pytest.mark.slow
def test_when_the_runner_is_killed_the_next_in_line_runs_it(server, start, name, tmp_path):
    first, *others = start(server.url, count=3)
    first.ask("once", name, folder=str(tmp_path), **RUN)
    wait_until(lambda: began(tmp_path) == {first.pid})
    asked = []
    for child in others:
        asked.append(child.ask("once", name, folder=str(tmp_path), **RUN))
        View(server, name).until_waiting(len(asked))
    first.kill()
    second = others[0].pid
    wait_until(lambda: began(tmp_path) == {first.pid, second})
    ends(tmp_path)
    assert [each.result(20)["value"] for each in asked] == [second, second]
    assert began(tmp_path) == {first.pid, second}


@pytest.mark.nightly
def test_a_runner_that_stood_still_is_told_when_another_ran_it(server, start, name, tmp_path):
    first, second = start(server.url, count=2)
    told = first.ask("once", name, folder=str(tmp_path), **RUN)
    wait_until(lambda: began(tmp_path) == {first.pid})
    first.pause()
    asked = second.ask("once", name, folder=str(tmp_path), **RUN)
    wait_until(lambda: began(tmp_path) == {first.pid, second.pid})
    ends(tmp_path)
    assert asked.result(20)["value"] == second.pid
    first.resume()
    assert told.result(20)["error"] == "LeaseLost"
    later = second.tell("once", name, folder=str(tmp_path), **RUN)
    assert (later["ran"], later["value"]) == (False, second.pid)


@pytest.mark.nightly
def test_a_runner_that_stood_still_alone_has_run_it(server, start, name, tmp_path):
    first = start(server.url)
    told = first.ask("once", name, folder=str(tmp_path), **RUN)
    wait_until(lambda: began(tmp_path) == {first.pid})
    first.pause()
    View(server, name).until_free()
    ends(tmp_path)
    first.resume()
    assert told.result(20)["value"] == first.pid


def stands(children, server, name, **options):
    """Have children stand for election in this order; return what becomes of their campaigns."""
    asked = []
    for number, child in enumerate(children):
        child.tell("election", name, name=name, candidate=f"c{number}", **options)
        asked.append(child.ask("campaign", name))
        if number == 0:
            assert asked[0].result(20)["elected"]
        else:
            View(server, name).until_waiting(number)
    return asked


@pytest.mark.nightly
def test_when_the_leader_is_killed_the_next_is_elected_when_its_lease_ends(server, start, name):
    children = start(server.url, count=2)
    leader, heir = children
    _, elected = stands(children, server, name, ttl=3)
    ended = View(server, name).remaining
    leader.kill()
    left = ended()
    wait_until(elected.done, left + LOOK_SECONDS + machine_seconds())
    assert heir.tell("leads", name)["leads"]


@pytest.mark.nightly
def test_a_leader_that_stood_still_knows_before_it_acts(server, start, name):
    """What it was asked while it stood still is the first thing it does when it goes on."""
    children = start(server.url, count=2)
    leader, heir = children
    _, elected = stands(children, server, name, ttl=3)
    assert leader.tell("leads", name)["leads"]
    leader.pause()
    assert elected.result(20)["elected"]
    asked = leader.ask("leads", name)
    leader.resume()
    assert asked.result(20)["leads"] is False
    assert heir.tell("leads", name)["leads"]


# --- a server that is frozen ----------------------------------------------------------------------


def both_free(server, names):
    for name in names:
        View(server, name).until_free()


def test_a_multi_on_a_frozen_server_ends_in_time_and_leaves_nothing(own_server, connect, name):
    names = [f"{name}-{each}" for each in "ba"]
    face = connect(own_server.url)
    multi = face.multi(names, ttl=60)
    assert multi.acquire(timeout=10)
    multi.release()
    own_server.pause()
    told, took = outcome(multi.acquire, timeout=0.3)
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert took < 0.4 + machine_seconds()
    own_server.resume()
    both_free(own_server, names)


def test_a_release_of_a_multi_that_nobody_answered_is_repeated(own_server, connect, name):
    names = [f"{name}-{each}" for each in "ba"]
    multi = connect(own_server.url, server_timeout=1.5).multi(names, ttl=60)
    assert multi.acquire(timeout=10)
    own_server.pause()
    told, _ = outcome(multi.release)
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    own_server.resume()
    both_free(own_server, names)


def test_a_hand_over_that_nobody_answered_ends_the_leadership(own_server, connect, name):
    ann = connect(own_server.url, server_timeout=1.5).election(name, candidate="ann", ttl=60)
    bob = connect(own_server.url).election(name, candidate="bob", ttl=60)
    assert ann.campaign(timeout=10)
    elected = spawn(bob.campaign)
    View(own_server, name).until_waiting(1)
    own_server.pause()
    told, _ = outcome(ann.hand_over, "bob")
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert not ann.is_leader
    own_server.resume()
    assert elected.result(20)
    wait_until(lambda: bob.is_leader)
    bob.resign()


def test_a_wait_for_a_result_ends_in_time_on_a_frozen_server(own_server, connect, name):
    face = connect(own_server.url)
    assert face.once(name, within=60).run(face.body(lambda: 1)).ran
    own_server.pause()
    waits = face.once(name, within=60, wait=True, timeout=0.3)
    told, took = outcome(waits.run, face.body(lambda: 2))
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert took < 0.4 + machine_seconds()
    own_server.resume()
