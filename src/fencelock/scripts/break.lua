-- Revokes a lease by an operator's word: the holder is notified, the next waiter is granted. Idempotent per
-- request id (I4): a request that comes again takes nothing from the next holder. Ids are kept among the
-- proofs of life, for 60 s.
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 reason   2 how long the reason is kept, ms   3 request id
-- Reply {1, holder, info}   revoked; the info is '' when it was before
--       {0, '', ''}         nobody held it; the line was moved all the same
-- include: _fence
-- include: _line
-- include: _grant

local holder = redis.call('GET', KEYS[1])
if redis.call('ZSCORE', KEYS[4], 'broke ' .. ARGV[3]) then
  return {1, string.match(redis.call('GET', KEYS[6]) or '', '^%S*'), ''}
end
if redis.call('ZSCORE', KEYS[4], 'found ' .. ARGV[3]) then return {0, '', ''} end
redis.call('ZADD', KEYS[4], clock(), (holder and 'broke ' or 'found ') .. ARGV[3])
redis.call('PEXPIRE', KEYS[4], QUEUE_MS)
if not holder then
  grant_next(1, '')
  return {0, '', ''}
end
redis.call('SET', KEYS[6], holder .. ' ' .. ARGV[1], 'PX', ARGV[2])
local granted, home, info = string.match(redis.call('GET', KEYS[2]) or '',
  '^%d+ (%S+) %d+ %d+ %d (%S+) (.*)$')
if not grant_next(1, '') then redis.call('DEL', KEYS[1]) end
if granted ~= holder then return {1, holder, ''} end
redis.pcall('PUBLISH', home, 'revoked ' .. holder .. ' ' .. ARGV[1])
return {1, holder, info}
