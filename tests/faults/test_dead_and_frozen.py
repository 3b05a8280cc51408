"""Processes that hold or wait die or freeze: the line goes on, within bounds that are stated (I7).

A waiter whose process is gone costs nothing: the server sees that nobody listens. A frozen one
still looks alive. Its grant costs the claim (2 s, or its ttl if that is shorter), unless it has
been silent for three proofs of life (7 s): then it is skipped. A fixed lease (``renew=False``) has
no claim: a frozen waiter that wants one costs its whole ttl.
"""

import pytest

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._runtime.clock import now
from tests.faults.world import View
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face

# A waiter looks when a lease ends; further back it looks up to this much later (waiting.py).
LOOK_SECONDS = 0.1
# And a claim that ends is seen only by who looks: the next one in line, every 2 s at the latest.
PROOF_SECONDS = 2.0


def slack():
    """Return by how much it may be late."""
    return LOOK_SECONDS + machine_seconds()


def lined_up(children, server, name, **options):
    """Have children wait in this order; return what each was told, as futures."""
    view, asked = View(server, name), []
    for child in children:
        child.lock(name, **options)
        asked.append(child.ask("acquire", name))
        view.until_waiting(len(asked))
    return asked


@pytest.mark.slow
def test_a_frozen_head_costs_its_claim(server, start, connect, name):
    frozen, alive = start(server.url, count=2)
    lock = connect(server.url).lock(name)
    lock.acquire()
    late, asked = lined_up([frozen, alive], server, name)
    frozen.pause()
    released = now()
    lock.release()
    waited = asked.result(20)["returned"] - released
    assert waited < HANDOFF_TTL_SECONDS + slack()
    frozen.resume()
    alive.tell("release", name)
    assert late.result(20)["granted"], "the frozen one goes on waiting when it wakes"
    frozen.tell("release", name)
    assert View(server, name).free()


@pytest.mark.slow
def test_many_frozen_waiters_cost_no_more_than_it_takes_to_be_taken_for_dead(
    server, start, connect, name
):
    *frozen, alive = start(server.url, count=9)
    lock = connect(server.url).lock(name)
    lock.acquire()
    *_, asked = lined_up([*frozen, alive], server, name)
    for child in frozen:
        child.pause()
    released = now()
    lock.release()
    waited = asked.result(30)["returned"] - released
    assert waited < 7 + HANDOFF_TTL_SECONDS + slack()


@pytest.mark.slow
def test_who_was_frozen_for_long_is_skipped_at_once(server, start, connect, name):
    *frozen, alive = start(server.url, count=3)  # two claims are more than a busy machine takes
    lock = connect(server.url).lock(name)
    lock.acquire()
    *_, asked = lined_up([*frozen, alive], server, name)
    for child in frozen:
        child.pause()
    since = now()
    alive_key = View(server, name).keys.grant[3].decode()
    wait_for_silence(server, alive_key, since, 7.0 + PROOF_SECONDS)
    released = now()
    lock.release()
    assert asked.result(20)["returned"] - released < machine_seconds()


def wait_for_silence(server, alive_key, since, seconds):
    """Wait until a client that stopped at ``since`` must be taken for dead."""
    from tests.faults.world import wait_until  # noqa: PLC0415 - only here

    wait_until(lambda: now() - since > seconds, seconds + 1)
    assert server.command("ZCARD", alive_key) >= 1
