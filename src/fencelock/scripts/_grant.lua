-- Fragment: who gets the lock next. Included by every script that can grant it, after
-- _fence.lua and _line.lua.
--
-- It guards I1 (one script decides), I5 (a release hands over), I7 (dead waiters
-- are skipped) and I10 (every key ends by itself).
--
-- The keys of one lock always come together and in this order; `base` is the index of the first:
--   lock     string  the holder id; any client that does SET NX PX on it excludes us, and we it
--   record   string  "fence holder terms" of the last grant
--   queue    zset    waiter entries by arrival (server microseconds)
--   alive    zset    home of a client -> when it last proved that it lives (server microseconds)
--   holds    set     hold ids of an explicit reentrant owner
--   revoked  string  "holder reason", after an operator's break
--
-- A home is the channel of a whole client: it tells clients apart, and revocations go there.
-- A waiter entry is "waiter holder channel terms": its own id, the holder id it will have, and where
-- it listens. The terms are "ttl claim owned home info": the lease it wants (ms), the lease that a
-- handoff starts with (ms), 1 for an explicit owner, its client, and what `show` prints.

-- Grants to the first live waiter and tells it; `me` is the waiter that asks, it hears by the reply.
-- A waiter of another client than the asking one (`near`) may be frozen: its lease starts short.
-- Returns waiter and fence, or nil when nobody alive is in line.
local function grant_next(base, me, near)
  local now
  while true do
    local head = redis.call('ZPOPMIN', KEYS[base + 2])
    if not head[1] then return nil end
    now = now or clock()
    local waiter, holder, channel, at, ttl, claim, owned, home = string.match(head[1],
      '^(%S+) (%S+) (%S+) ()(%d+) (%d+) (%d) (%S+)')
    if not waiter then  -- of a semaphore with the lock's name, whose holders are gone: not ours
      redis.call('ZADD', KEYS[base + 2], head[2], head[1])
      return nil
    end
    local mine = waiter == me
    if mine or lives(base, tonumber(now), home, tonumber(head[2])) then
      local lease_ms = (mine or home == near) and ttl or claim
      local fence = next_fence(redis.call('GET', KEYS[base + 1]), now)
      if mine or told(channel, waiter, fence, now, lease_ms) then
        redis.call('SET', KEYS[base], holder, 'PX', lease_ms)
        write_record(base, fence, holder, string.sub(head[1], at), lease_ms)
        if owned == '1' then first_hold(base, waiter, lease_ms) end
        return waiter, fence
      end
    end
  end
end
