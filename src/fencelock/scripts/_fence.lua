-- Fragment: fences, and the record of a grant. Apart from _grant.lua, so that a call which finds
-- nobody in line need not set up the rest (a script builds its functions at every call).
--
-- It guards I3 (fences grow). `base` is the index of a lock's first key, see _grant.lua.

local RECORD_MS = 600000  -- a record outlives its lease: it guards fences against clock steps

local function server_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- I3: never below the last fence plus one, never below the clock. `last` is the record so far.
local function next_fence(last, now)
  local previous = last and tonumber(string.match(last, '^%d+')) or 0
  if previous >= now then return previous + 1 end
  return now
end

local function write_record(base, fence, holder, terms, lease_ms)
  redis.call('SET', KEYS[base + 1], string.format('%.0f %s %s', fence, holder, terms),
    'PX', RECORD_MS + lease_ms)
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
