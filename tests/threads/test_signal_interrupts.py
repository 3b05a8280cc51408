"""Ctrl-C while a thread waits for an event, at a barrier, or on a condition (I9)."""

import signal

import pytest

from fencelock._core.keys import ConditionKeys, LockKeys, SignalKeys
from tests.threads.state import program
from tests.waiting import until

HEAD = """
import sys, fencelock
url, prefix = sys.argv[1:3]
client = fencelock.Client(url, key_prefix=prefix)
"""
WAITS = """
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", {then}, flush=True)
    client.close()
"""


def interrupted(server, prefix, setup, call, *, then, ready):
    """Run a program that waits, press Ctrl-C once it is ready, and return what it says."""
    text = HEAD + setup + WAITS.format(call=call, then=then)
    with program(text, server.url, prefix) as running:
        until(ready, "it waits")
        running.send_signal(signal.SIGINT)
        told = running.stdout.readline().strip()
        assert running.wait(10) == 0, running.stderr.read()
        return told


def test_a_wait_for_an_event(server, prefix):
    watch = SignalKeys(prefix, "a").watch[1]
    told = interrupted(
        server,
        prefix,
        "event = client.event('a')",
        "event.wait()",
        then="''",
        ready=lambda: server.command("ZCARD", watch) == 1,
    )
    assert told == "interrupted"
    until(lambda: server.command("ZCARD", watch) == 0, "nobody is on the list")


def test_a_wait_at_a_barrier_gives_its_place_back(server, prefix):
    def come():
        return server.command("HGET", f"{prefix}a", "count")

    told = interrupted(
        server,
        prefix,
        "barrier = client.barrier('a', 2)",
        "barrier.wait()",
        then="''",
        ready=lambda: come() == "1",
    )
    assert told == "interrupted"
    until(lambda: come() == "0", "the place is free again")
    assert server.command("HGET", f"{prefix}a", "broken") is None


@pytest.mark.parametrize("kind", ["lock", "rlock"])
def test_a_wait_on_a_condition_has_the_lock_again_first(server, prefix, kind):
    condition = ConditionKeys(LockKeys(prefix, "a")).condition
    told = interrupted(
        server,
        prefix,
        f"condition = client.condition(client.{kind}('a'))\ncondition.acquire()",
        "condition.wait()",
        then="condition.lock.owned(), condition.release() or 'released'",
        ready=lambda: server.command("ZCARD", condition) == 1,
    )
    assert told == "interrupted True released"
    until(lambda: server.command("GET", f"{prefix}a") is None, "it is free")
    until(lambda: server.command("ZCARD", condition) == 0, "nobody is on the list")


# Interrupts at random instants: when one has struck, the lock is held again, and nothing else is
# left; whoever releases it finds it free.
STORM = """
import random, signal
chance, armed, struck, bad = random.Random(int(sys.argv[3])), False, 0, 0

def strike(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)
condition, observer = client.condition("a"), fencelock.Client(url, key_prefix=prefix)
for turn in range(int(sys.argv[4])):
    condition.acquire()
    try:
        armed = True
        most = chance.choice([0.0003, 0.005])
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, most))
        condition.wait(0.003)
    except KeyboardInterrupt:
        struck += 1
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    bad += not condition.lock.owned()
    condition.release()
    other = observer.lock("a")
    if other.acquire(timeout=8):
        other.release()
    else:
        bad += 1
print(struck, bad, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_interrupts_at_random_instants_of_a_wait(server, prefix, seed):
    turns = 400
    with program(HEAD + STORM, server.url, prefix, seed, turns) as running:
        said = running.stdout.readline()
        assert running.wait(60) == 0, running.stderr.read()
    struck, bad = map(int, said.split())
    assert struck > turns / 2
    assert bad == 0
    listed = ConditionKeys(LockKeys(prefix, "a")).condition
    until(lambda: server.command("ZCARD", listed) == 0, "nobody is on the list")
