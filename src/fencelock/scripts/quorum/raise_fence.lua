-- Writes a quorum's fence to one node, so that a client that asks a majority finds it (I3).
--
-- KEYS  lock record   (see _lock.lua)
-- ARGV  1 holder   2 fence
-- Reply 1   the node has this fence, or a later one
--       0   this holder does not hold it, and may not raise its fence

local call, fence = redis.call, tonumber(ARGV[2])
local last, rest = string.match(call('GET', KEYS[2]) or '', '^(%d+)( .*)$')
if not last or redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if tonumber(last) < fence then
  local left = string.format('%d', math.max(call('PTTL', KEYS[2]), 1))
  call('PEXPIRE', KEYS[2], left)  -- a full server takes what follows a write: see _when_full.lua
  call('SET', KEYS[2], ARGV[2] .. rest, 'PX', left)
end
return 1
