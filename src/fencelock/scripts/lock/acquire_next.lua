-- Ends a client's tenure of a lock, and acquires the lock for its next waiter, or a place in line as of
-- when that waiter came. One command instead of a release and an acquire (I5). Each half is idempotent
-- per id (I4): a tenure that has ended is left alone.
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 to 5 as acquire.lua, for the next waiter   6 ''
--       7 holder id of the tenure, or '' for none   8 the last fence that it used, or ''
--       9 for how long the waiter waited, us
-- Reply {verdict, reply of acquire.lua}   the verdict is 1, or as in release.lua {-1, reason}: not the
--                                         holder; of no tenure it is 0

-- include: lock/_used_fence

local WAITED_LONG_US = 1000000  -- its client must prove that it lives

local function end_tenure(holder, fence)
  local base = 1
  if holder == '' then return 0 end
  if redis.pcall('GET', KEYS[1]) ~= holder then  -- an error when the key is of another kind by now
-- include: _not_holder
    return {-1, reason}
  end
  write_used(base, fence)
  redis.call('DEL', KEYS[1])
  return 1
end

-- include: lock/_rights
refused = lacks('EXISTS', 'GET', 'HGET', 'PTTL', 'TYPE', 'ZCARD', 'ZPOPMIN', 'ZRANGE', 'ZRANK', 'ZREM')
if refused then return refused end

local verdict = end_tenure(ARGV[7], ARGV[8])

local function acquire()
-- include: lock/acquire
end

if tonumber(ARGV[9]) > WAITED_LONG_US then
  local t = redis.call('TIME')
  redis.call('ZADD', KEYS[4], string.format('%.0f', t[1] * 1000000 + t[2]),
    string.match(ARGV[5], '<options: client>'))
  redis.call('PEXPIRE', KEYS[4], WAITERS_MS)
end
return {verdict, acquire()}
