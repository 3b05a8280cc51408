-- Fragment: fences, and the record of a grant. Apart from _grant.lua, so that a call which finds
-- nobody in line need not set up the rest (a script builds its functions at every call).
--
-- It guards I3 (fences grow). `base` is the index of a lock's first key, see _grant.lua.
-- Fences and the clock stay texts: turning a number into text costs as much as a read.

local RECORD_MS = 600000  -- a record outlives its lease: it guards fences against clock steps

local function clock()
-- include: _now
  return now
end

local function next_fence(last, now)
-- include: _next_fence
  return fence
end

local function write_record(base, fence, holder, terms, lease_ms)
  redis.call('SET', KEYS[base + 1], fence .. ' ' .. holder .. ' ' .. terms,
    'PX', string.format('%d', RECORD_MS + lease_ms))
end

-- An explicit owner's holds share the keys: one hold's shorter lease must not end another's.
local function prolong(key, lease_ms)
  if redis.call('PTTL', key) < lease_ms then redis.call('PEXPIRE', key, lease_ms) end
end

-- An explicit owner's first hold: what an earlier owner left behind must not count.
local function first_hold(base, waiter, lease_ms)
  redis.call('DEL', KEYS[base + 4])
  redis.call('SADD', KEYS[base + 4], waiter)
  redis.call('PEXPIRE', KEYS[base + 4], lease_ms)
end
