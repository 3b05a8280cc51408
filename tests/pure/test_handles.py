"""lock.py: the options of a handle, and whose hold a release means."""

import asyncio
import json
from functools import partial
from threading import Thread, current_thread
from types import SimpleNamespace

import pytest

from fencelock import NotHeld, Poll
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._handles.handle import Holds, describe, lease_options
from fencelock._handles.semaphore import FORMS_MAX, SemaphoreHolds
from fencelock._runtime.process import here
from fencelock.options import LeaseOptions, Queue
from tests.pure.made import held

GIVEN = LeaseOptions(ttl=30.0)
PLAIN = dict.fromkeys(("ttl", "max_hold", "max_renewals", "timeout", "on_lost", "label"))


def chosen(**given):
    options = {**PLAIN, "renew": True, "wait": Queue(), "cancels": True, **given}
    return lease_options(GIVEN, **options)


async def hears(*_):
    """Be called by an event loop only."""


class Hearer:
    async def hears(self, lease):
        """Likewise."""


def holds(*units):
    kept = Holds(LockKeys("p:", "a"), chosen(), Hold)
    for unit in units:
        kept.add(held(unit=unit))
    return kept


def taken(kept, unit, **options):
    out = []
    kept.take(unit, out, **options)
    return out[0]


def test_the_clients_options_are_the_defaults():
    options = chosen()
    assert (options.ttl, options.renew, options.plain) == (30.0, True, False)
    assert chosen(ttl=7).ttl == 7.0
    assert chosen(wait=Poll(interval=2, max_tries=3)).max_tries == 3


def test_a_short_hold_begins_with_a_short_lease():
    assert chosen(max_hold=5).ttl_now() == 5.0
    assert chosen(max_hold=50).ttl_now() == 30.0


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"on_lost": "cancel", "cancels": False}, ValueError),
        ({"on_lost": "stop"}, TypeError),
        ({"on_lost": 1}, TypeError),
        ({"on_lost": hears, "cancels": False}, TypeError),
        ({"on_lost": partial(hears), "cancels": False}, TypeError),
        ({"on_lost": Hearer().hears, "cancels": False}, TypeError),
        ({"wait": None}, TypeError),
        ({"owner": ""}, ValueError),
        ({"owner": b"x"}, TypeError),
        ({"owner": "x" * 1025}, ValueError),
        ({"owner": "\udc80"}, ValueError),
        ({"renew": "no"}, TypeError),
        ({"strict": []}, TypeError),
        ({"owner": "x", "wait": Poll()}, ValueError),
        ({"max_renewals": -1}, ValueError),
        ({"max_hold": 0}, ValueError),
        ({"label": ""}, ValueError),
    ],
)
def test_what_cannot_work_is_refused(given, error):
    with pytest.raises(error, match=next(iter(given))):
        chosen(**given)


@pytest.mark.parametrize("callback", [hears, partial(hears), Hearer().hears, print, Hearer])
def test_asyncio_calls_callbacks_of_both_kinds(callback):
    assert chosen(on_lost=callback).on_lost is callback


def test_no_renewals_at_all_are_a_fixed_lease():
    assert chosen(max_renewals=0).max_renewals == 0
    with pytest.raises(ValueError, match="at least 0, not -1"):
        chosen(max_renewals=-1)


def test_owner_ids_have_no_blanks_and_stay_apart():
    names = ["a b", "a%20b", "a\nb", "a", "%", "%25", "é", "\x7f", "\0"]
    owners = [chosen(owner=name).owner for name in names]
    assert len(set(owners)) == len(names)
    assert all(len(owner.split()) == 1 and b"\0" not in owner for owner in owners)


def test_a_release_means_ones_own_hold_else_the_newest():
    kept = holds("a", "b", "c")
    assert taken(kept, "b").unit == "b"
    assert taken(kept, "x").unit == "c"
    with pytest.raises(NotHeld):
        taken(kept, "x", only_own=True)
    assert taken(kept, "x").unit == "a"
    with pytest.raises(NotHeld, match="not locked"):
        taken(kept, "a")


def test_of_two_holds_of_one_unit_the_newest_counts():
    kept = holds("a", "a")
    newest = kept.newest()
    assert kept.of("a") is newest
    assert taken(kept, "a") is newest
    assert kept.remove(newest) is False


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, '"\\\n' * 500, "\ud800", "\x1b[31m"])
def test_what_people_are_shown_is_bounded_json(text):
    described = describe(text, text)
    assert len(described) < 1024
    assert b"\n" not in described
    assert set(json.loads(described)) == {"host", "pid", "unit", "label"}


def test_threads_of_one_name_are_told_apart():
    told = [describe(here.unit, None)]
    other = Thread(
        name=current_thread().name, target=lambda: told.append(describe(here.unit, None))
    )
    other.start()
    other.join()
    assert_alike_but_for_the_id(told)


def test_tasks_of_one_name_are_told_apart():
    async def told():
        return describe(asyncio.current_task(), None)

    async def both():
        tasks = [asyncio.create_task(told(), name="worker") for _ in range(2)]
        return [await each for each in tasks]

    assert_alike_but_for_the_id(asyncio.run(both()))


def assert_alike_but_for_the_id(told):
    one, other = map(json.loads, told)
    assert one.pop("id") != other.pop("id")
    assert one == other


def test_no_label_is_not_shown():
    assert "label" not in json.loads(describe("main", None))


def test_requests_for_few_numbers_of_permits_are_kept():
    """I10: each packed request takes a kilobyte, and a caller may ask for any number of permits."""
    permits = SemaphoreHolds(LockKeys("p:", "a"), chosen(), Hold, 1000, bounded=False)
    port = SimpleNamespace(client_channel=b"home", now=lambda: 0.0)
    first = permits.terms(port, 1)
    assert permits.terms(port, 1) is first
    for number in range(1, 200):
        assert permits.terms(port, number).permits == number
    assert len(permits._forms) <= FORMS_MAX
