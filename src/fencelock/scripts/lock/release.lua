-- Releases the lock: to the next waiter, or to none. Only the holder may.
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 holder   2 client channel, and of an explicit owner:
--       3 waiter   4 the fence of its grant, or '' for any
--       and of a client whose waiters took turns: 3 ''   4 the last fence that it used
-- Reply 1                 released
--       {0, holds left}   an explicit owner still holds
--       {-2, holds left}  the owner holds, but not by this acquisition: it was released before
--       {-1, reason}      not the holder: the operator's reason when it was revoked, '' when another
--                         client holds, nil when none does

local call, holder, base = redis.call, ARGV[1], 1
if redis.pcall('GET', KEYS[1]) ~= holder then  -- an error when the key is of another kind by now
-- include: _not_holder
  return {-1, reason}
end
local awaited = call('EXISTS', KEYS[3]) == 1
if awaited or ARGV[3] then
-- include: lock/_rights
  refused = ARGV[3] and lacks('GET', 'SCARD', 'SREM', 'ZPOPMIN')
  if refused then return refused end
end
if ARGV[3] == '' then
-- include: lock/_used_fence
  write_used(base, ARGV[4])
elseif ARGV[3] then
  -- The same owner may have lost the lock and acquired it again: then its holds are others.
  local granted = string.match(call('GET', KEYS[2]) or '', '^%d+')
  if ARGV[4] ~= '' and granted ~= ARGV[4] then return {-1, ''} end
  if call('SREM', KEYS[5], ARGV[3]) == 0 then return {-2, call('SCARD', KEYS[5])} end
  local left = call('SCARD', KEYS[5])
  if left > 0 then return {0, left} end
end
if not awaited then
  call('DEL', KEYS[1])
  return 1
end

-- include: lock/_lock

hand_over(1, ARGV[2])
return 1
