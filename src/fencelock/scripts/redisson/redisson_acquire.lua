-- Acquires a lock in the layout of Redisson's RLock, or of its RFencedLock. Idempotent per field (I4).
--
-- KEYS  lock, and of an RFencedLock its token
-- ARGV  1 field   2 ttl ms
-- Reply token, '0' of a lock without one      granted
--       {now us, pttl ms, 0, 0, ''}           held; the words are those of acquire.lua
--
-- The lock is a hash of one field, "client:number", whose value is how often its holder has entered.
-- Redisson knows a thread by the number. Ours is that of an acquisition: so a field that is there already
-- is this one's, and the first reply was lost. Then the token stays: it counts acquisitions.

local call, token = redis.call, '0'
local again = call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not again and call('EXISTS', KEYS[1]) == 1 then
-- include: _now
  return {tonumber(now), call('PTTL', KEYS[1]), 0, 0, ''}
end
-- include: _rights
local refused = lacks('GET', 'HSET', 'PEXPIRE')
if refused then return refused end
if KEYS[2] then
  if not again then call('INCR', KEYS[2]) end
  token = call('GET', KEYS[2]) or token
end
if not again then call('HSET', KEYS[1], ARGV[1], '1') end
call('PEXPIRE', KEYS[1], ARGV[2])
return token
