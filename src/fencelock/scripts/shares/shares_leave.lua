-- Releases permits later: their lease goes on under an id that no client has; see leave.lua.
--
-- KEYS  lock record queue alive holds revoked   (see _shares.lua)
-- ARGV  1 holder   2 how long it lasts from now, ms
-- Reply 1              left
--       {-1, reason}   not a holder; see shares_release.lua

-- constants: LEFT

-- include: shares/_shares
-- include: _look_again
-- include: shares/_rights
-- include: _when_full

local holder, left = ARGV[1], ARGV[1] .. LEFT
local s = open(1)
local hold = s and s.kind and call('HGET', KEYS[5], holder)
if hold then
  call('ZREM', KEYS[1], holder)
  call('HDEL', KEYS[5], holder)
  call('ZADD', KEYS[1], text(s.now + ARGV[2] * 1000), left)
  call('HSET', KEYS[5], left, hold)
  s.changed = true
end
local done = hold or s and s.kind and call('HGET', KEYS[5], left)
if s and s.kind then save(s) end
if hold then look_again(KEYS[3]) end
if done then return 1 end
local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
return {-1, revoked and string.find(revoked, holder, 1, true) and reason or false}
