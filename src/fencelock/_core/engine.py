"""What a client does with its locks on one server, also on the one that Sentinels name.

A port inherits it. A Cluster's port and a quorum's replace what differs there
(``_topology/cluster.py``, ``_topology/quorum.py``): so a flow calls the port that it was given, and
never asks which servers it runs on.

What few programs need is imported when it is first called: a command of the shell pays for each
module when it starts.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hand_back import hand_back
from fencelock._core.lock.heartbeat import heartbeat
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.release import clean_up
from fencelock._core.lock.renew import maintain, renew_due, renew_one
from fencelock._core.lock.terms import Terms, may_linger
from fencelock._core.lock.turns import give_back, release_in_background, take
from fencelock._core.port import Port
from fencelock._core.retry import ask, command
from fencelock._core.types import Call, Reply
from fencelock._core.wire import Replicas


class Engine:
    """The flows of one server. Their first parameter is the port: here they are its methods."""

    replicas: Replicas | None = None

    take = take
    heartbeat = heartbeat
    give_back = give_back
    release_in_background = release_in_background
    hand_back = hand_back
    clean_up = clean_up
    maintain = maintain
    renew_due = renew_due
    renew = renew_one

    async def value_of(self: Port, keys: LockKeys, /) -> bytes | None:
        """Return the id of the client that holds a lock and uses it, or None."""
        holder: bytes | None = await command(self, (b"GET", keys.lock), keys.lock)
        if holder is not None and may_linger(holder) and await self.is_idle(keys, holder):
            return None
        return holder

    def one_script(self, _terms: Sequence[Terms], /) -> bool:
        """Return True: all keys are on one server."""
        return True

    async def renew_all(self: Port, holds: Sequence[Hold], ttl: float | None) -> None:
        """Renew leases one after the other."""
        from fencelock._core.objects.multi_renew import renew_in_turn

        await renew_in_turn(self, holds, ttl)

    async def side_by_side(
        self: Port, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts one after the other."""
        from fencelock._core.objects.multi import one_by_one

        return await one_by_one(self, calls, until)

    async def replies(self: Port, _name: str, call: Call, /) -> list[Reply]:
        """Return the answer of the server."""
        return [await ask(self, *call, self.now() + self.server_timeout)]

    async def on_each(
        self: Port, _name: str, flow: Callable[[Port], Awaitable[Any]], /
    ) -> Sequence[Any]:
        """Run a flow on the server."""
        return [await flow(self)]

    async def survey(self: Port, found: Sequence[LockKeys], waiters: int, /) -> list[list[Any]]:
        """Ask for all locks with one command."""
        from fencelock._core.look.show import survey

        return await survey(self, found, waiters)

    async def is_idle(self: Port, keys: LockKeys, holder: bytes, /) -> bool:
        """Ask the holder's client."""
        from fencelock._core.look.clients import is_idle

        return await is_idle(self, keys, holder)

    async def local_rows(
        self: Port, clients: Mapping[bytes, LockKeys], until: float, /
    ) -> Sequence[Any]:
        """Ask the clients who waits inside them."""
        from fencelock._core.look.clients import local_rows

        return await local_rows(self, clients, until)


@describes_errors
async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the lock's present holder, or None."""
    return await port.value_of(keys)
