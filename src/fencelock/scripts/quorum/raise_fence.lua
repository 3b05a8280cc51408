-- Writes a quorum's fence to one node, so that a client that asks a majority finds it (I3).
--
-- KEYS  lock record queue alive holds   (see _lock.lua and _shares.lua)
-- ARGV  1 holder   2 fence
-- Reply 1   the node has this fence, or a later one
--       0   this holder does not hold it, and may not raise its fence

local call, holder, fence = redis.call, ARGV[1], tonumber(ARGV[2])
local record = call('GET', KEYS[2]) or ''
local last, rest = string.match(record, '^(%d+)( .*)$')
local shared = rest and string.sub(rest, 1, 2) == ' ='
local hold = shared and call('HGET', KEYS[5], holder)
if not last then return 0 end
if shared and not hold or not shared and call('GET', KEYS[1]) ~= holder then return 0 end
if tonumber(last) < fence then
  local left = call('PTTL', KEYS[2])
  call('SET', KEYS[2], ARGV[2] .. rest, 'PX', string.format('%d', math.max(left, 1)))
end
if shared then
  local permits, own, terms = string.match(hold, '^(%d+) (%d+)( .*)$')
  if tonumber(own) < fence then
    call('HSET', KEYS[5], holder, permits .. ' ' .. ARGV[2] .. terms)
  end
end
return 1
