-- Returns the holder of a lock, and has the client that asks notified of changes.
--
-- KEYS  lock record   (see _lock.lua)
--       watchers  zset  "waiter channel" -> when it last looked (server microseconds)
-- ARGV  1 waiter   2 channel; without them no client is notified of changes
-- Reply {holder or '', pttl ms, record or ''}

-- constants: WAITERS_MS

local FORGET_WATCHER_US = 10000000  -- a watcher that has not looked for this long is forgotten

if ARGV[1] then
-- include: _rights
  local refused = lacks('GET', 'PEXPIRE', 'PTTL', 'ZADD')
  if refused then return refused end
-- include: _now
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - FORGET_WATCHER_US))
  redis.call('ZADD', KEYS[3], now, ARGV[1] .. ' ' .. ARGV[2])
  redis.call('PEXPIRE', KEYS[3], WAITERS_MS)
end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]),
  redis.call('GET', KEYS[2]) or ''}
