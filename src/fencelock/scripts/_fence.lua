-- Fragment: fences, and the record of a grant. Apart from _grant.lua, so that a call which finds
-- nobody in line need not set up the rest (a script builds its functions at every call).
--
-- It guards I3 (fences grow). `base` is the index of a lock's first key, see _grant.lua.
-- Fences and the clock stay texts: turning a number into text costs as much as a read.

local RECORD_MS = 600000  -- a record outlives its lease: it guards fences against clock steps

-- The server's clock in microseconds, as text: 16 digits till the year 2286.
local function clock()
  local t = redis.call('TIME')
  return t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
end

-- I3: never below the last fence plus one, never below the clock. `last` is the record so far.
-- Texts of as many digits compare as their numbers do, and faster.
local function next_fence(last, now)
  if not last or (last < now and string.byte(last, 17) == 32 and #now == 16) then return now end
  local previous = tonumber(string.match(last, '^%d+'))
  if previous and previous >= tonumber(now) then return string.format('%.0f', previous + 1) end
  return now
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
