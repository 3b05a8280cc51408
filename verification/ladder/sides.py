"""The historical reader/writer locks."""

from collections.abc import Iterable

from verification.ladder.judge import Key
from verification.ladder.user import User

TTL = 1  # seconds

READ_TWO_KEYS = b"""
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('SET', KEYS[1], '1', 'EX', ARGV[1])
return 1
"""
WRITE_TWO_KEYS = b"""
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
return 1
"""
# A side is free when its deadline, by the server's clock, has passed.
SIDE = b"""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function busy(side)
  local deadline = redis.call('HGET', KEYS[1], side)
  return deadline and tonumber(deadline) > now
end
if busy('write') or ARGV[1] == 'write' and busy('read') then return nil end
local deadline = string.format('%.0f', now + ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], deadline)
redis.call('EXPIRE', KEYS[1], 10)
return deadline
"""
LEAVE_SIDE = b"""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
"""
# An entry for each holder, by its deadline.
ENTER_OWN = b"""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if ARGV[1] == 'write' or string.find(entry, '^write') then return 0 end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1] .. ':' .. ARGV[2])
return redis.call('PEXPIRE', KEYS[1], 10000)
"""
LEAVE_OWN = b"return redis.call('ZREM', KEYS[1], ARGV[1])"
SCRIPTS = {
    "enter_own": ENTER_OWN,
    "leave_own": LEAVE_OWN,
    "read": READ_TWO_KEYS,
    "write": WRITE_TWO_KEYS,
    "enter": SIDE,
    "leave": LEAVE_SIDE,
}


class TwoKeys:
    """One key that says that somebody reads, another that somebody writes."""

    name = b"lock"

    def __init__(self, side: str) -> None:
        self.side = side
        self.shared = side == "read"

    def keys(self, _user: User) -> Iterable[Key]:
        return [(0, b"lock:" + self.side.encode())]

    async def acquire(self, user: User) -> bool:
        return bool(await user.run(self.side, [b"lock:read", b"lock:write"], TTL))

    async def release(self, user: User) -> None:
        await user.ask(b"DEL", b"lock:" + self.side.encode())


class OneDeadline:
    """One hash with a deadline for each side, by the server's clock."""

    name = b"lock"

    def __init__(self, side: str, *, ttl: float) -> None:
        self.side = side.encode()
        self.shared = side == "read"
        self.ttl_ms = int(ttl * 1000)

    def keys(self, _user: User) -> Iterable[Key]:
        return [(0, b"lock." + self.side)]

    async def acquire(self, user: User) -> bool:
        user.memory[self.side] = await user.run("enter", [b"lock"], self.side, self.ttl_ms)
        return user.memory[self.side] is not None

    async def release(self, user: User) -> None:
        await user.run("leave", [b"lock"], self.side, user.memory[self.side])


class OwnEntries:
    """One sorted set with an entry and a deadline for each holder: what mends both."""

    name = b"lock"

    def __init__(self, side: str, *, ttl: float) -> None:
        self.side = side.encode()
        self.shared = side == "read"
        self.ttl_ms = int(ttl * 1000)

    def entry(self, user: User) -> bytes:
        return b"%b:%b" % (self.side, user.memory["id"])

    def keys(self, user: User) -> Iterable[Key]:
        return [(0, b"lock." + self.entry(user))]

    async def acquire(self, user: User) -> bool:
        value = user.memory["id"] = user.new_id()
        return bool(await user.run("enter_own", [b"lock"], self.side, value, self.ttl_ms))

    async def release(self, user: User) -> None:
        await user.run("leave_own", [b"lock"], self.entry(user))
