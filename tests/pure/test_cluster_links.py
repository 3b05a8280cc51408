"""_ports/cluster_links.py: a subscription that the server ends right behind its answer is none."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock._core.types import Broken
from fencelock._ports.cluster_links import NodeLink
from fencelock._transport.cluster_proof import Node
from fencelock._transport.source import Direct

CHANNEL = b"home{x}!"


class Mux:
    """Answers a SSUBSCRIBE, and has what comes behind the answer heard before the asker goes on."""

    sound = True

    def __init__(self, behind):
        self._behind = behind

    async def subscribe(self, channel, _until, _word):
        self._behind(channel)


def heard(behind):
    """Listen once where the link does this behind the answer; return what the link then hears."""

    async def run():
        cluster = SimpleNamespace(at=lambda node: Direct(lambda _: None, str(node)))
        links = SimpleNamespace(cluster=cluster)
        link = NodeLink(links, Node("h", 1), b"home", 0, patience=1.0)
        link.mux = Mux(lambda channel: behind(link, channel))

        async def connected(_until):
            return link.mux

        link.connected = connected
        await link.hear(CHANNEL, b"SSUBSCRIBE", 1.0)
        return link.heard

    return asyncio.run(run())


def test_what_is_subscribed_is_heard():
    assert heard(lambda _link, _channel: None) == {CHANNEL}


def test_nothing_is_heard_on_a_connection_that_is_gone():
    seen = []
    links = SimpleNamespace(
        cluster=SimpleNamespace(at=lambda node: Direct(lambda _: None, str(node))),
        slots=SimpleNamespace(doubt=seen.append),
        unplugged=seen.append,
    )
    link = NodeLink(links, Node("h", 1), b"home", 0, patience=1.0)
    link.heard.add(CHANNEL)
    link._gone(links)
    assert link.heard == set()
    assert seen == [link.node, link]


def test_what_the_server_ends_at_once_is_not_heard():
    with pytest.raises(Broken, match="ended the subscription"):
        heard(lambda link, channel: link.drop(channel))
