-- Gives the lock back: to the next in line, or to nobody. Only the holder may.
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 holder   2 home, and of an explicit owner:
--       3 waiter   4 the fence of its tenure, or '' for whichever it has
-- Reply 1                 released
--       {0, holds left}   an explicit owner still holds
--       {-2, holds left}  the owner holds, but not by this acquisition: it was released before
--       {-1, revoked}     not the holder; revoked is the operator's reason, or '' where somebody
--                         else holds, or nil

local call, holder = redis.call, ARGV[1]
if redis.pcall('GET', KEYS[1]) ~= holder then  -- an error when it is another kind by now
  local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
  return {-1, revoked == holder and reason or call('EXISTS', KEYS[1]) == 1 and ''}
end
if ARGV[3] then
  -- The same owner may have lost the lock and got it anew: another tenure, other holds.
  local tenure = string.match(call('GET', KEYS[2]) or '', '^%d+')
  if ARGV[4] ~= '' and tenure ~= ARGV[4] then return {-1, ''} end
  if call('SREM', KEYS[5], ARGV[3]) == 0 then return {-2, call('SCARD', KEYS[5])} end
  local left = call('SCARD', KEYS[5])
  if left > 0 then return {0, left} end
end
if call('EXISTS', KEYS[3]) == 0 then
  call('DEL', KEYS[1])
  return 1
end

-- include: _fence
-- include: _line
-- include: _grant

if not grant_next(1, '', ARGV[2]) then call('DEL', KEYS[1]) end
return 1
