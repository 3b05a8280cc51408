"""Ctrl-C while a thread waits for an event or at a barrier (I9)."""

import signal

from fencelock._core.keys import SignalKeys
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
