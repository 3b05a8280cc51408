"""Redlock, on several servers that know nothing of each other."""

from collections.abc import Iterable

from fencelock._core.types import NoReply
from verification.ladder.judge import Key
from verification.ladder.user import User

TTL = 1  # seconds
DRIFT = 0.01 * TTL + 0.002


class Redlock:
    """SET NX PX on every node; held with a majority, until ttl less elapsed less drift."""

    name = b"lock"
    shared = False

    def keys(self, user: User) -> Iterable[Key]:
        return [(node, self.name) for node in user.memory["votes"]]

    async def acquire(self, user: User) -> bool:
        asked_at = user.now()
        value = user.memory["value"] = user.new_id()
        user.memory["votes"] = [node for node in nodes(user) if await self.vote(user, node, value)]
        until = user.memory[self.name, "until"] = asked_at + TTL - DRIFT
        if len(user.memory["votes"]) > len(nodes(user)) // 2 and user.now() < until:
            return True
        await self.release(user)
        return False

    async def vote(self, user: User, node: int, value: bytes) -> bool:
        words = (b"SET", self.name, value, b"NX", b"PX", TTL * 1000)
        try:
            return await user.ask(*words, node=node) is not None
        except NoReply:
            return False

    async def release(self, user: User) -> None:
        for node in nodes(user):
            try:
                await user.run("compare_delete", [self.name], user.memory["value"], node=node)
            except NoReply:
                continue


def nodes(user: User) -> range:
    return range(len(user.world.servers))
