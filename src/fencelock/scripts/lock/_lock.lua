-- Fragment: a lock and its line. Included by each script that can grant a lock.
--
-- It guards I1 (one script decides), I5 (a release hands over), I7 (dead waiters are skipped) and I10
-- (each key ends by itself).
--
-- The keys of one lock always come together and in this order; `base` is the index of the first:
--   lock     string  the holder id; any client that does SET NX PX on it excludes us, and we it
--   record   string  "fence holder options" of the last grant
--   queue    zset    waiter entries by arrival (server microseconds)
--   alive    zset    channel of a client -> its last heartbeat (server microseconds); and ids that are
--                    remembered for 60 s; and "n waiter count": how many of a client wait for a place
--   holds    set     hold ids of an explicit reentrant owner
--   revoked  string  "holder reason", after an operator revoked the lease
--
-- A client channel is the channel of a whole client: it tells clients apart, and revocations go there.
-- A waiter entry is "waiter holder channel options": the waiter's id, the holder id that it will have,
-- and where it listens. Clients write it. The options are "ttl handoff_ttl owned client info": the lease that it
-- wants (ms), the lease that a handoff starts with (ms), 1 for an explicit owner or 2 for a lease that
-- its client may keep while it is idle, its client, and what `show` prints. The id of a waiter that only
-- tries, while it waits for such a lease, begins with "?".

-- include: _fence
-- include: lock/_record
-- include: _line
-- include: lock/_grant

local LOCK = {
  pops = true,
  entry = '<entry: waiter holder channel @ttl handoff_ttl owned client>',
  fence = function(pool, now) return next_fence(call('GET', KEYS[pool.base + 1]), now) end,
  take = function(pool, owned, id, holder, options, fence, lease_ms)
    call('SET', KEYS[pool.base], holder, 'PX', lease_ms)
    write_record(pool.base, fence, holder, options, lease_ms)
    if owned == '1' then first_hold(pool.base, id, lease_ms) end
    return true
  end,
}

-- Grants a free lock to the first live waiter; `me` and `near` are those of grant_line.
-- Returns the waiter and its fence, or nil when no live waiter is in line.
local function grant_next(base, me, near) return grant_line({base = base}, LOCK, me, near) end

-- Gives a lock to the next waiter, or to none.
local function hand_over(base, near)
  if not grant_next(base, '', near) then call('DEL', KEYS[base]) end
end
