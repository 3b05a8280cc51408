"""_ports/cluster*.py: where a waiter listens, and when the map of the slots is read."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock._core.keys import LockKeys, slot
from fencelock._core.types import Broken
from fencelock._core.waiter import Waiter
from fencelock._core.want import Form, Terms, Want
from fencelock._ports.cluster import ClusterPort
from fencelock._ports.cluster_aio import ClusterAioPort
from fencelock._ports.cluster_pool import ClusterPool
from fencelock._transport import cluster
from fencelock._transport.cluster import LOCAL, Clustered, Redirect, key_in, tag_in
from fencelock._transport.cluster_proof import Node
from fencelock._transport.source import Direct
from fencelock._transport.wire import ReplyError, server_error
from fencelock.clock import now

A, B = Node("a", 1), Node("b", 2)
ALL = [[0, 16383, [b"a", 1], [b"b", 2]]]
SOON = 10.0


def refused(_until):
    raise Broken("no connection", sent=False)


def clustered():
    """Return a Cluster of which no node answers."""
    return Clustered((A, B), lambda node: Direct(refused, str(node)), "two nodes")


def waiter(number=0):
    keys = LockKeys("p:", "a")
    form = Form(keys=keys, terms=Terms(ttl=30.0, renew=True), home=b"h", ttl=30.0)
    return Waiter(Want(form, b"w%d" % number))


def with_port(story):
    """Run a story with an asyncio port that knows the map."""

    async def run():
        port = ClusterAioPort(clustered(), home="h", patience=1.0)
        port.link.slots.learn(ALL, A)
        await story(port)

    asyncio.run(run())


def listening(port, node):
    """Return the link to a node that takes every subscription."""

    async def subscribe(_channel, _until, _word):
        return None

    link = port.link.at(node)
    link.mux = SimpleNamespace(sound=True, subscribe=subscribe)
    return link


# --- asyncio --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharded", [True, False], ids=["channels of slots", "channels of nodes"])
def test_a_request_that_names_another_channel_is_not_sent_on(sharded):
    """It would have the grant published where the waiter does not listen any more."""

    async def story(port):
        port._sharded = sharded
        asks = waiter()
        await port._listen(asks, listening(port, A), now() + SOON, asking=False)
        there, step = listening(port, B), Redirect(B, asking=False)
        if sharded:
            assert await port._link_for(asks.key, step, now() + SOON, asks) is there
        else:
            with pytest.raises(Broken) as raised:
                await port._link_for(asks.key, step, now() + SOON, asks)
            assert not raised.value.sent
        assert port._seats[asks.want.waiter] is there

    with_port(story)


def test_an_undo_goes_behind_its_request_to_the_node_that_got_it_last():
    async def story(port):
        here, there, asks = listening(port, A).mux, listening(port, B).mux, waiter()
        number, asked = slot(asks.key), []

        async def ask(mux, _until, *, asking):
            assert not asking
            asked.append((mux, asks.trail))
            if mux is here:
                raise server_error(ReplyError(f"MOVED {number} b:2"))
            return b"done"

        assert await port._routed(asks.key, ask, now() + SOON, asks, proves=False) == b"done"
        assert asked == [(here, here), (there, there)]

    with_port(story)


def test_waiters_of_a_channel_that_the_server_ends_ask_again_and_no_others():
    async def story(port):
        link, ended, stays = listening(port, A), waiter(0), waiter(1)
        for each, channel in ((ended, b"one"), (stays, b"two")):
            port._register(each, link, channel)
            link.heard.add(channel)
        port._pushed_from(link, [b"sunsubscribe", b"one", 1])
        assert (ended.news, stays.news) == (True, False)
        assert link.heard == {b"two"}
        assert port.link.slots.doubtful

    with_port(story)


# --- threads --------------------------------------------------------------------------------------


def test_a_waiter_is_seated_at_once_where_its_node_listens_already():
    port, asks = ClusterPort(clustered(), home="h", patience=1.0), waiter()
    assert port.seat(asks, listen=True) is False
    port.pool.slots.learn(ALL, A)
    channel = b"h" + LOCAL
    idle = SimpleNamespace(sound=True, node=A, channels={slot(asks.key): channel}, waiter=None)
    port.pool._pools[A] = SimpleNamespace(idle=lambda: idle)
    assert port.seat(asks, listen=True) is True
    assert (asks.seat, asks.channel, idle.waiter) == (idle, channel, asks)
    port.closing = True
    assert port.seat(asks, listen=True) is False


def test_a_map_that_no_node_tells_is_not_asked_for_again_at_once():
    pool = ClusterPool(clustered(), lambda *_: None)
    pool.slots.learn(ALL, A)
    pool.slots.read_at = 0.0
    pool.slots.doubt(None)
    began = now()
    assert pool.owner(key_in(1), began + SOON) == A
    assert pool.slots.doubtful
    assert pool.slots.read_at >= began


# --- slots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 8191, 16383])
def test_a_tag_is_found_for_every_slot(number):
    cluster._pairs.cache_clear()
    assert len(tag_in(number)) == 4
    assert slot(tag_in(number)) == slot(key_in(number)) == number
