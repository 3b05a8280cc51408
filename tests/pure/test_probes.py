"""Where probes go: a cycle of any length is found, and a line of waits is not flooded."""

import contextlib
import random
from types import SimpleNamespace as Made

import pytest

from fencelock._core.deadlock.unit_waits import (
    NEAR_STEPS,
    UnitWait,
    UnitWaits,
    arrived,
    frames_of,
)
from fencelock.scripts import ANSWER


class Client:
    """A client with one unit, which holds lock ``number`` and waits for what ``ahead`` holds."""

    hears, mutex = True, contextlib.nullcontext()

    def __init__(self, number, ahead, age, sent):
        self.ahead, self.waits, self._sent = ahead, UnitWaits(), sent
        terms = Made(owned=False, deadlock_after=1.0, batch=None, kind=None)
        keys = Made(name=f"lock {number + 1}", plain=())
        hold = Made(
            holder_id=b"h%d" % number, unit=number, fence=1, bound=True, parts=(), frame=None
        )
        hold.open, hold.released, hold.loss, hold.terms = True, False, None, terms
        hold.user_lease, hold.port = hold, self
        self.renewals = Made(held_as=lambda _holder: [hold], tracked=lambda: [hold])
        self.lines = Made(stands=lambda _: True)
        asks = Made(local=False, answered_us=age, keys=keys, channel=b"", id=b"", news=False)
        asks.terms = Made(probe=lambda _asks, _expected, text: (self, text))
        attempt = Made(unit=number, keys=keys, info=b'{"unit":"a thread"}', terms=terms, event=None)
        attempt.give_up_at = float("inf")
        self.wait = UnitWait(self, attempt, asks, 0.0)
        self.waits.ports[self] = None
        self.waits.begin(number, self.wait)

    def new_id(self):
        return b"w%d" % id(self)

    def wake(self, asks):
        """Nothing has to be woken."""

    def run_in_background(self, what, *args):
        if what is not ANSWER:
            self._sent.append((what.ahead, args[0]))


class Network:
    """Clients that wait for each other, and the probes between them."""

    def __init__(self, ages, closed_at=None):
        self.sent = []
        last = len(ages) - 1
        self.clients = [
            Client(n, n + 1 if n < last else closed_at, age, self.sent)
            for n, age in enumerate(ages)
        ]

    def looked(self, times):
        """Let all waits look; return which were refused, and how many probes the last time cost."""
        for _ in range(times):
            count = 0
            for client in self.clients:
                client.wait.look(0.0)
            while self.sent:
                ahead, text = self.sent.pop(0)
                count += 1
                if ahead is not None:
                    arrived(self.clients[ahead], b"h%d" % ahead, text)
        return [n for n, each in enumerate(self.clients) if each.wait.cycle is not None], count


ORDERS = {
    "the oldest ahead": lambda number: range(2 * number, number, -1),
    "the youngest ahead": lambda number: range(1, number + 1),
    "in any order": lambda number: random.Random(number).sample(range(1, number + 1), number),
}


@pytest.mark.parametrize("number", [2, NEAR_STEPS, NEAR_STEPS + 1, 60])
@pytest.mark.parametrize("order", ORDERS)
def test_the_youngest_of_a_cycle_is_refused(order, number):
    ages = list(ORDERS[order](number))
    refused, _ = Network(ages, closed_at=0).looked(1 if number <= NEAR_STEPS else 2)
    assert refused == [ages.index(max(ages))]


@pytest.mark.parametrize("order", ORDERS)
def test_a_long_cycle_behind_a_younger_wait_is_found(order):
    ring = list(ORDERS[order](30))
    refused, _ = Network([1000, 999, *ring], closed_at=2).looked(3)
    assert refused == [2 + ring.index(max(ring))]


@pytest.mark.parametrize("order", ORDERS)
def test_a_long_line_of_waits_is_not_flooded(order):
    """Each has a few probes, and only the youngest of them goes through the whole line."""
    number = 100
    network = Network(list(ORDERS[order](number)))
    for _ in range(3):
        refused, count = network.looked(1)
        assert refused == []
        assert count <= number * (NEAR_STEPS + 1) + number


def test_a_wait_that_a_signal_handler_s_interrupts_stands_again_after_it():
    client = Network([1]).clients[0]
    outer, inner = client.wait, UnitWait(client, client.wait.attempt, client.wait.asks, 0.0)
    client.waits.begin(0, inner)
    for wait, left in ((inner, outer), (outer, None)):
        assert client.waits.of(0) is wait
        client.waits.end(0, wait)
        assert client.waits.of(0) is left


class Running:
    """A coroutine that runs: CPython 3.12 may crash if asked what it awaits."""

    cr_running = True

    def __init__(self):
        self.cr_frame = Made(f_code=None)

    @property
    def cr_await(self):
        raise AssertionError("asked what a coroutine awaits that runs")


@pytest.mark.parametrize("own", [True, False])
def test_what_a_coroutine_awaits_that_runs_is_not_asked(own):
    runs = Running()
    task = Made(get_coro=lambda: Made(cr_frame=Made(f_code=None), cr_await=runs))
    assert (id(runs.cr_frame), None) in frames_of(task, own=own)
