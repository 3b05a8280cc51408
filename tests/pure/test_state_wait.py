"""state_wait.py and what waits by it: the first question, and the last when time is up."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fencelock._core.engine import Engine
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.waiting import Lines
from fencelock._core.objects.event_latch import GateWait
from fencelock._core.objects.state_wait import LEAVING_SECONDS, StateSpec
from fencelock._core.types import NoReply
from fencelock._io.threads import run_blocking
from fencelock.errors import ServerUnreachable

NOW, TIMEOUT = 1000.0, 0.5
CLOSED = [[0, b"1", 1]]  # and the waiter is on the list


class Port(SimpleNamespace, Engine):
    """A client whose process is stopped for a moment just when its wait ends."""

    server_timeout = 5.0

    def __init__(self, stopped):
        super().__init__(clock=NOW, stopped=stopped, lines=Lines(), asked=[], trip=0.0)

    mutex = nullcontext()

    def now(self):
        return self.clock

    def new_id(self):
        return b"1"

    def jitter(self):
        return 0.0

    async def open(self, waiter, until, *, listen):
        waiter.channel = b"c"

    def close(self, waiter):
        pass

    def run_in_background(self, *_):
        self.asked.append(b"undo")

    async def wait(self, waiter, until):
        self.clock = until + self.stopped

    async def sleep(self, until):
        self.clock = until

    async def call(self, script, keys, args, until, waiter):
        self.asked.append(args[3])
        self.clock += self.trip
        if until <= self.clock:
            raise NoReply("no time left", sent=False)
        return CLOSED


@pytest.mark.parametrize("stopped", [0.0, LEAVING_SECONDS * 0.6, LEAVING_SECONDS * 1.1, 60.0])
def test_a_process_that_was_stopped_still_asks_one_last_time(stopped):
    """Without time for the answer, a server that is well would count as unreachable."""
    port = Port(stopped)
    event = StateSpec(SignalKeys("p:", "e"), b"event", 60.0)
    assert run_blocking(GateWait(port, event).outcome(TIMEOUT)) is None
    assert port.asked == [b"wait", b"leave"]
    assert port.lines.watches == {}


def test_the_end_of_another_generation_is_a_reason_to_ask_and_no_verdict():
    wait = GateWait(Port(0.0), StateSpec(SignalKeys("p:", "e"), b"event", 60.0))
    wait.settle(b"1")
    for gen, verdict in ((b"2", False), (b"1", True)):
        wait.news = False
        wait.on_message(gen, b"open")
        assert (wait.news, wait.verdict is not None) == (True, verdict)


@pytest.mark.parametrize("trip", [LEAVING_SECONDS * 0.6, LEAVING_SECONDS * 0.4])
def test_a_late_answer_of_a_far_server_is_no_silence(trip):
    """That of a near one is: it had the time of two round trips, and more."""
    port = Port(0.0)
    port.trip, event = trip, StateSpec(SignalKeys("p:", "e"), b"event", 60.0)

    async def wait(_waiter, until):
        port.clock, port.trip = until, 1.0  # the last answer comes too late

    port.wait = wait
    if trip > LEAVING_SECONDS / 2:
        assert run_blocking(GateWait(port, event).outcome(TIMEOUT)) is None
        assert port.asked == [b"wait", b"leave", b"undo"]
    else:
        with pytest.raises(ServerUnreachable, match="does not answer"):
            run_blocking(GateWait(port, event).outcome(TIMEOUT))
