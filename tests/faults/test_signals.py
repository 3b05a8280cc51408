"""An event whose message is lost: what else is lost or late is explored in tests/flows."""

from fencelock._core.keys import SignalKeys
from tests.faults.world import PREFIX, outcome, spawn, wait_until


def on_list(server, name):
    return server.command("ZCARD", SignalKeys(PREFIX, name).watch[1])


def test_a_lost_message_costs_a_look(connect, proxy, server, name):
    waiting = spawn(outcome, connect(proxy.url).event(name).wait, 20)
    wait_until(lambda: on_list(server, name) == 1)
    fault = proxy.on("signal", "drop_push")
    writer = connect(server.url).event(name)
    writer.set()
    fault.wait()
    writer.clear()
    result, took = waiting.result(20)
    assert result is True
    assert took < 10
