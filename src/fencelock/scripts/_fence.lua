-- Fragment: the clock, fences, and the record of a grant. It is apart from _lock.lua, so that a call
-- that finds no waiter need not build the rest: a script builds its functions at each call.
--
-- It guards I3 (fences grow). `base` is the index of the first key of a name, see _lock.lua.
-- Fences and the clock stay texts: turning a number into text costs as much as a read.

-- constants: RECORD_MS

local call = redis.call

local function clock()
-- include: _now
  return now
end

-- include: _text

local function next_fence(last, now)
-- include: _next_fence
  return fence
end

local function write_record(base, fence, holder, terms, lease_ms)
  call('SET', KEYS[base + 1], fence .. ' ' .. holder .. ' ' .. terms, 'PX', text(RECORD_MS + lease_ms))
end

-- Prolongs a key, and never shortens it: the holds of an explicit owner share the lock's keys.
local function prolong(key, lease_ms)
  if call('PTTL', key) < lease_ms then call('PEXPIRE', key, lease_ms) end
end

-- Writes the first hold of an explicit owner; holds that an earlier owner left must not count.
local function first_hold(base, waiter, lease_ms)
  call('DEL', KEYS[base + 4])
  call('SADD', KEYS[base + 4], waiter)
  call('PEXPIRE', KEYS[base + 4], lease_ms)
end
