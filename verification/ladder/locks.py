"""The historical exclusive locks on one server, as their articles have them.

Each lease is one second, on the key ``lock``. What these programs do wrong is the point.
"""

import contextlib
from collections.abc import Iterable

from fencelock._core.types import NoReply
from verification.ladder.judge import Key
from verification.ladder.user import User

TTL = 1  # seconds
TOLERANCE = 1.0  # the GETSET lock allows clocks to differ by this much

SET_EXPIRE = b"""
if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[2])
"""
COMPARE_DELETE = b"""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""
COMPARE_EXPIRE = b"""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[2])
"""
SCRIPTS = {
    "set_expire": SET_EXPIRE,
    "compare_delete": COMPARE_DELETE,
    "compare_expire": COMPARE_EXPIRE,
}


class OneKey:
    """A lock that is one key on one server."""

    shared = False

    def __init__(self, name: bytes = b"lock") -> None:
        self.name = name

    def keys(self, _user: User) -> Iterable[Key]:
        return [(0, self.name)]

    async def release(self, user: User) -> None:
        await user.ask(b"DEL", self.name)


class ExistsSet(OneKey):
    """EXISTS, then SET; DEL."""

    async def acquire(self, user: User) -> bool:
        if await user.ask(b"EXISTS", self.name):
            return False
        await user.ask(b"SET", self.name, b"1")
        return True


class Setnx(OneKey):
    """SETNX; DEL."""

    async def acquire(self, user: User) -> bool:
        return bool(await user.ask(b"SETNX", self.name, b"1"))


class SetnxExpire(Setnx):
    """SETNX, then EXPIRE; DEL."""

    async def acquire(self, user: User) -> bool:
        if not await super().acquire(user):
            return False
        await user.ask(b"EXPIRE", self.name, TTL)
        return True


class Getset(OneKey):
    """SETNX of a deadline by the client's clock; who finds it over takes it by GETSET."""

    async def acquire(self, user: User) -> bool:
        mine = stamp(user.wall() + TTL)
        if await user.ask(b"SETNX", self.name, mine):
            return True
        found = await user.ask(b"GET", self.name)
        if found is not None and not over(found, user):
            return False
        before = await user.ask(b"GETSET", self.name, stamp(user.wall() + TTL))
        return before is None or before == found


def stamp(seconds: float) -> bytes:
    return b"%.1f" % seconds


def over(deadline: bytes, user: User) -> bool:
    return user.wall() > float(deadline) + TOLERANCE


class ScriptSet(OneKey):
    """SETNX and EXPIRE in one script; DEL, whoever has it."""

    async def acquire(self, user: User) -> bool:
        return bool(await user.run("set_expire", [self.name], b"1", TTL))


class Owned(OneKey):
    """SET NX EX with a value of its own; GET, compare and DEL in three commands."""

    def value(self, user: User) -> bytes:
        return user.new_id()

    async def acquire(self, user: User) -> bool:
        value = user.memory[self.name] = self.value(user)
        return await user.ask(b"SET", self.name, value, b"NX", b"EX", TTL) is not None

    async def release(self, user: User) -> None:
        if await user.ask(b"GET", self.name) == user.memory[self.name]:
            await user.ask(b"DEL", self.name)


class CompareDelete(Owned):
    """SET NX EX with a value of its own; GET, compare and DEL in one script."""

    async def release(self, user: User) -> None:
        await user.run("compare_delete", [self.name], user.memory[self.name])


class ByThread(CompareDelete):
    """The same, with the thread's id for a value: unique on one host only."""

    def value(self, user: User) -> bytes:  # noqa: ARG002 - that is what is wrong with it
        return b"thread-1"


class Renewed(CompareDelete):
    """The same, renewed every so many seconds as long as a flag says so."""

    def __init__(self, name: bytes = b"lock", *, every: float, flag: object = None) -> None:
        super().__init__(name)
        self.every = every
        self.flag = flag or ("renews", name)  # locks with one flag stop renewing together

    async def acquire(self, user: User) -> bool:
        asked_at = user.now()
        if not await super().acquire(user) or user.now() >= asked_at + TTL:  # too late an answer
            return False
        user.memory[self.flag] = True
        user.begin(self.renew(user))
        return True

    async def renew(self, user: User) -> None:
        while True:
            await user.sleep(self.every)
            if not user.memory[self.flag]:
                return
            with contextlib.suppress(NoReply):  # the next one may be in time
                await user.run("compare_expire", [self.name], user.memory[self.name], TTL)

    async def release(self, user: User) -> None:
        user.memory[self.flag] = False
        await super().release(user)
