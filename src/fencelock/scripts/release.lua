-- Gives the lock back: to the next in line, or to nobody. Only the holder may.
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 waiter   2 holder   3 owned   4 home
--       5 the fence of an explicit owner's tenure, or '' for whichever it has
-- Reply {1, 0}            released
--       {0, holds left}   an explicit owner still holds
--       {-2, holds left}  the owner holds, but not by this acquisition: it was released before
--       {-1, revoked}     not the holder; revoked is the operator's reason, or ''

if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  local holder, reason = string.match(redis.call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
  return {-1, holder == ARGV[2] and reason or ''}
end
if ARGV[3] == '1' then
  -- The same owner may have lost the lock and got it anew: another tenure, other holds.
  local tenure = string.match(redis.call('GET', KEYS[2]) or '', '^%d+')
  if (ARGV[5] or '') ~= '' and tenure ~= ARGV[5] then return {-1, ''} end
  if redis.call('SREM', KEYS[5], ARGV[1]) == 0 then return {-2, redis.call('SCARD', KEYS[5])} end
  local left = redis.call('SCARD', KEYS[5])
  if left > 0 then return {0, left} end
end
if redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return {1, 0}
end

-- include: _fence
-- include: _grant

if not grant_next(1, '', ARGV[4]) then redis.call('DEL', KEYS[1]) end
return {1, 0}
