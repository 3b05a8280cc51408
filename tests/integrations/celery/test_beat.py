"""A beat on every host that schedules on one: real beats, killed and stopped, and their claims."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("celery")

from celery import Celery
from celery.beat import Scheduler

import fencelock
from fencelock.contrib.celery import leading
from tests.integrations.celery.fleet import JOBS, until

pytestmark = pytest.mark.slow


def leads(every):
    """Return the settings of a beat that sends a message in so many seconds, while it leads."""
    return {
        "beat_scheduler": "fencelock.contrib.celery:LeadingScheduler",
        "beat_schedule": {"often": {"task": f"{JOBS}.due", "schedule": every}},
    }


def sent(server):
    """Return the process ids of the beats that sent the messages in the queue, oldest first."""
    lines = server.command("LRANGE", "celery", 0, -1)
    origins = [json.loads(line)["headers"]["origin"] for line in lines]
    return [int(re.match(r"gen(\d+)@", each)[1]) for each in reversed(origins)]


def in_line(server):
    return server.command("ZCARD", "fencelock:{fencelock:beat:jobs}~queue")


@pytest.fixture
def beats(fleet, server):
    """Return two beats, the first of which leads, and the second is in line."""

    def start(ttl, every=0.1):
        first = fleet.beat(conf=leads(every), ttl=ttl)
        until(lambda: first.pid in sent(server), "the first message")
        second = fleet.beat(conf=leads(every), ttl=ttl)
        until(lambda: in_line(server) == 1, "the second beat")
        return first, second

    return start


def test_one_beat_schedules_and_hands_over_when_it_is_stopped(beats, server):
    first, second = beats(ttl=600)
    before = len(sent(server))
    until(lambda: len(sent(server)) > before + 3)
    assert set(sent(server)) == {first.pid}

    assert first.stop() == 0
    until(lambda: second.pid in sent(server), "the second beat's message")
    pids = sent(server)
    assert pids == sorted(pids, key=[first.pid, second.pid].index)  # one after the other
    second.stop()


def test_another_beat_takes_over_once_the_lease_of_a_killed_one_has_ended(beats, server):
    first, second = beats(ttl=3)
    first.kill()
    until(lambda: second.pid in sent(server), "the second beat's message")


# --- claims ---------------------------------------------------------------------------------------

HOURLY = {"hourly": {"task": f"{JOBS}.due", "schedule": timedelta(hours=1)}}
LeadingPlain = leading(Scheduler)


@pytest.fixture
def app(server):
    made = Celery("jobs", broker=server.tcp_url, set_as_current=False)
    made.conf.update(beat_schedule=HOURLY, result_expires=None)
    yield made
    made.close()


@pytest.fixture
def scheduler(app):
    made = []

    def make():
        made.append(LeadingPlain(app))
        return made[-1]

    yield make
    for each in made:
        each.close()


def make_due(scheduler, hours=2):
    """Have the entry run last so long ago."""
    scheduler.schedule["hourly"].last_run_at = datetime.now(UTC) - timedelta(hours=hours)
    scheduler._heap = None


def queued(server):
    return server.command("LLEN", "celery")


def test_a_new_leader_repeats_nothing_that_the_last_one_has_sent(scheduler, server):
    first, second = scheduler(), scheduler()
    assert first.tick() > 0
    make_due(first)
    assert first.tick() == 0
    assert queued(server) == 1
    ran = first.schedule["hourly"].last_run_at
    first.close()

    assert second.tick() > 0
    assert second.schedule["hourly"].last_run_at == pytest.approx(ran, abs=timedelta(seconds=1))
    assert queued(server) == 1


def test_a_new_leader_runs_what_fell_due_while_no_beat_led(scheduler, server):
    first, second = scheduler(), scheduler()
    first.tick()
    key = first._candidacy._key.decode()
    first.close()
    past = (datetime.now(UTC) - timedelta(hours=2)).timestamp()
    server.command("HSET", key, "entry:hourly", past)

    assert second.tick() == 0
    assert queued(server) == 1


def test_an_interval_does_not_begin_anew_with_each_leader(scheduler, server):
    first, second = scheduler(), scheduler()
    first.tick()
    began = first.schedule["hourly"].last_run_at
    first.close()
    second.tick()

    assert second.schedule["hourly"].last_run_at == pytest.approx(
        began, abs=timedelta(milliseconds=1)
    )
    assert server.command("PTTL", second._candidacy._key.decode()) > 0


def test_a_leader_that_was_replaced_cannot_send(scheduler, server, caplog):
    first, second = scheduler(), scheduler()
    first.tick()
    with fencelock.Client(server.tcp_url) as client:
        assert client.revoke("beat:jobs", reason="for the test")
    assert second.tick() > 0
    make_due(first)
    first.apply_entry(first.schedule["hourly"])

    assert queued(server) == 0
    assert "another beat leads" in caplog.text


def test_a_server_that_is_away_does_not_end_the_beat(app, server, caplog):
    app.conf.fencelock = {"source": "redis://127.0.0.1:1/0", "server_timeout": 0.1}
    scheduler = LeadingPlain(app)
    assert scheduler.tick() > 0
    assert "tries again" in caplog.text
    scheduler.close()


@pytest.mark.parametrize("claimed", [False, True], ids=["lost request", "lost answer"])
def test_an_entry_whose_claim_failed_is_sent_when_the_server_is_back(
    scheduler, server, monkeypatch, claimed
):
    one = scheduler()
    one.tick()
    make_due(one)
    claim = type(one._candidacy).claim

    def failing(candidacy, entries):
        monkeypatch.undo()
        if claimed:
            claim(candidacy, entries)
        raise fencelock.ServerUnreachable("for the test")

    monkeypatch.setattr(type(one._candidacy), "claim", failing)
    assert one.tick() > 0
    assert queued(server) == 0
    assert one.tick() == 0
    assert one.tick() > 0  # it is due in an hour again
    assert queued(server) == 1


def test_what_is_no_scheduler_is_refused():
    with pytest.raises(TypeError, match=r"celery\.beat\.Scheduler"):
        leading(dict)
