"""``exclusive`` in real workers: which run goes first, what others get, what a kill leaves."""

import os
import signal
from importlib.util import find_spec

import pytest

pytest.importorskip("celery")

from celery.exceptions import TaskRevokedError

from fencelock.contrib.celery import TaskBusy, TaskLeaseLost, TaskSkipped
from tests.integrations.celery.fleet import SECONDS, until

pytestmark = pytest.mark.slow
# Never imported here: eventlet warns of every later fork of the process that imported it.
GREEN = [
    pytest.param(pool, marks=pytest.mark.skipif(find_spec(pool) is None, reason=f"no {pool}"))
    for pool in ("gevent", "eventlet")
]


def test_one_run_at_a_time_has_a_key_and_a_busy_one_is_retried(fleet, jobs, began, go):
    fleet.worker(slots=3)
    first = jobs.hold.delay("a")
    began(1)
    second, other = jobs.hold.delay("a"), jobs.hold.delay(key="b")
    began(2)
    # Between two tries its result is what a run that has started says of itself.
    told = until(lambda: isinstance(told := second.result, TaskBusy) and told, "the retry")

    assert [run[2] for run in began(2)] == ["a", "b"]
    assert told.holder["task_id"] == first.id
    assert told.holder["pid"] == int(began()[0][0])
    assert told.holder["host"]
    go("b")
    go("a", "one")
    assert (first.get(SECONDS), other.get(SECONDS)) == ("one", "done")
    go("a", "two")
    assert second.get(SECONDS) == "two"
    fences = [int(run[3]) for run in began(3) if run[2] == "a"]
    assert fences[0] < fences[1]


def test_a_skipped_run_is_no_success_and_names_the_holder(fleet, jobs, began, go):
    fleet.worker(slots=2)
    first = jobs.hold.delay("a")
    pid = int(began()[0][0])
    skipped = jobs.skip.delay("a")

    with pytest.raises(TaskSkipped, match=first.id) as told:
        skipped.get(SECONDS)
    assert isinstance(told.value, TaskRevokedError)
    assert (told.value.holder["pid"], told.value.holder["task_id"]) == (pid, first.id)
    assert (skipped.state, skipped.successful()) == ("REVOKED", False)
    go("a")
    assert first.get(SECONDS) == "done"


def test_a_chord_ends_with_an_error_when_a_part_was_skipped(fleet, jobs, began, go):
    from celery import chord  # noqa: PLC0415  # after importorskip

    fleet.worker(slots=2)
    first = jobs.hold.delay("a")
    began()
    result = chord([jobs.skip.s("a"), jobs.skip.s("b")])(jobs.body.s())
    go("b")

    until(lambda: result.state == "FAILURE", "the chord's own failure")
    with pytest.raises(Exception, match="is held by"):
        result.get(SECONDS)
    go("a")
    first.get(SECONDS)


def test_a_refused_run_fails_and_names_the_holder(fleet, jobs, began, go):
    fleet.worker(slots=2)
    first = jobs.hold.delay("a")
    began()
    refused = [jobs.refuse.delay("a"), jobs.above.delay("a")]

    for each in refused:
        with pytest.raises(TaskBusy, match=first.id):
            each.get(SECONDS)
        assert each.state == "FAILURE"
    go("a")
    assert first.get(SECONDS) == "done"


def test_bound_tasks_and_defaults_work_below_and_above(fleet, jobs, began, go):
    fleet.worker(slots=2)
    for task in (jobs.bound, jobs.above):
        result = task.delay()
        until(lambda result=result: result.state == "STARTED")
        go("usual")
        assert result.get(SECONDS) == f"{result.id} done"
    with pytest.raises(TypeError, match="unexpected keyword"):
        jobs.bound.delay(wrong=1)


def test_retries_of_a_busy_run_are_bounded_apart_from_the_task_s_own(fleet, jobs, client):
    fleet.worker(slots=1)
    with client.lock("hold:usual", label="a person"):
        result = jobs.bound.delay()
        with pytest.raises(TaskBusy, match="a person"):  # its max_retries is less
            result.get(SECONDS)


def test_a_call_inside_a_run_for_the_same_key_is_a_part_of_it(fleet, jobs, began, go):
    fleet.worker()
    result = jobs.outer.delay("a")
    began()
    go("a")
    assert result.get(SECONDS) == "outer done"


# --- kills ----------------------------------------------------------------------------------------


def test_after_a_revocation_that_terminates_the_next_run_starts(fleet, jobs, began, go):
    fleet.worker()
    first = jobs.hold.delay("a")
    began()
    first.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        first.get(SECONDS)
    second = jobs.hold.delay("a")
    began(2)
    go("a", "second")
    assert second.get(SECONDS) == "second"


def test_a_soft_time_limit_releases_at_once(fleet, jobs, began, client):
    fleet.worker(ttl=60)
    first = jobs.hold.apply_async(("a",), soft_time_limit=9)
    began()
    with pytest.raises(Exception, match="SoftTimeLimitExceeded"):
        first.get(SECONDS)
    with client.lock("hold:a", timeout=SECONDS):  # the ttl is a minute
        pass


def test_a_redelivered_message_waits_for_the_lease_of_its_dead_run(fleet, jobs, began, go):
    fleet.worker(slots=1)
    result = jobs.late.delay("a")
    os.kill(int(began()[0][0]), signal.SIGKILL)  # the child: its parent puts the message back
    began(2)
    go("a", "second")
    assert result.get(SECONDS) == "second"


# --- loss -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads", *GREEN])
def test_a_loss_stops_the_task(fleet, jobs, client, server, pool):
    fleet.worker(pool=pool, slots=2)
    # A thread cannot be interrupted while it blocks.
    task = jobs.spin if pool == "threads" else jobs.hold
    result = task.delay("a")
    until(lambda: server.command("LLEN", "began"), "the run")
    assert client.revoke("hold:a", reason="for the test")

    with pytest.raises(TaskLeaseLost, match="for the test") as told:
        result.get(SECONDS)
    assert result.state == "FAILURE"
    assert "jobs.py" in result.traceback, "the line at which it struck"
    assert (told.value.name, told.value.reason) == ("hold:a", "revoked")
    assert server.command("LLEN", "ended") == 0


def test_a_loss_is_no_success_even_if_the_task_swallows_it(fleet, jobs, began, client, server):
    fleet.worker()
    result = jobs.swallow.delay("a")
    began()
    assert client.revoke("hold:a", reason="for the test")

    with pytest.raises(TaskLeaseLost):
        result.get(SECONDS)
    assert server.command("LLEN", "swallowed") == 1


def test_a_lost_run_can_be_retried(fleet, jobs, began, go, client):
    fleet.worker()
    result = jobs.stubborn.delay("a")
    began()
    assert client.revoke("hold:a", reason="for the test")
    began(2)
    go("a")
    assert result.get(SECONDS) == "done after 1"
