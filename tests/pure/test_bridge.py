"""_io/sources/bridge.py: a stand-in for a connection asks the client, and pushes what it hears."""

import asyncio
import queue
import threading
from types import SimpleNamespace

from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.connection_blocking import dial
from fencelock._io.sources import bridge
from fencelock._io.sources.kinds import Bridged
from fencelock._runtime.clock import now

SOON = 10.0


def message(channel):
    return {"type": "message", "channel": channel, "data": b"news"}


class Subscribed:
    """A client's pubsub that hears one message on every channel."""

    def __init__(self):
        self._heard = queue.SimpleQueue()

    def subscribe(self, channel):
        self._heard.put({"type": "subscribe", "channel": channel, "data": 1})
        self._heard.put(message(channel))

    def get_message(self, timeout):
        try:
            return self._heard.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self):
        pass


class AioSubscribed(Subscribed):
    async def subscribe(self, channel):
        super().subscribe(channel)

    async def get_message(self, timeout):
        del timeout
        await asyncio.sleep(0)
        return None if self._heard.empty() else self._heard.get()

    async def aclose(self):
        pass


def test_a_thread_is_answered_and_hears_every_channel():
    client = SimpleNamespace(execute_command=lambda *words, **_: words[1], pubsub=Subscribed)
    heard = []
    connection = dial(
        Bridged(client, "a client"), now() + SOON, lambda _, push: heard.append(push[1])
    )
    assert connection.command((b"ECHO", b"word"), now() + SOON) == b"word"
    assert all(each.daemon for each in threading.enumerate() if each.name == "fencelock-bridge")
    for channel in (b"one", b"two"):
        connection.subscribe(channel, now() + SOON)
        while channel not in heard:
            assert connection.listen(now() + SOON)
    connection.close()


def test_a_task_is_answered_and_hears_every_channel():
    async def execute_command(*words, **_):
        return words[1]

    async def run():
        client = SimpleNamespace(execute_command=execute_command, pubsub=AioSubscribed)
        heard = asyncio.Queue()
        loop = asyncio.get_running_loop()
        mux = AsyncConnection(loop, lambda push: heard.put_nowait(push[1]), stall=SOON)
        await bridge.adopt(Bridged(client, "a client"), mux)
        assert await mux.command((b"ECHO", b"word"), now() + SOON) == b"word"
        for channel in (b"one", b"two"):
            await mux.subscribe(channel, now() + SOON)
            assert await asyncio.wait_for(heard.get(), SOON) == channel
        mux.close()
        await mux.keepsake

    asyncio.run(run())
