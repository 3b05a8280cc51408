-- Tells who holds a lock, and has the one who asks told of changes.
--
-- KEYS  lock record   (see _grant.lua)
--       watchers  zset  "waiter channel" -> when it last looked (server microseconds)
-- ARGV  1 waiter   2 channel; without them nobody is told of changes
-- Reply {holder or '', pttl ms, record or ''}

local FORGET_US, KEEP_MS = 10000000, 60000  -- who does not look any more is not told any more

if ARGV[1] then
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - FORGET_US))
  redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[1] .. ' ' .. ARGV[2])
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]),
  redis.call('GET', KEYS[2]) or ''}
