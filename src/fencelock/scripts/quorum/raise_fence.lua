-- Writes a quorum's fence to one node, so that a client that asks a majority finds it (I3).
--
-- KEYS  lock record queue alive holds   (see _lock.lua and _shares.lua)
-- ARGV  1 holder   2 fence
-- Reply 1   the node has this fence, or a later one
--       0   this holder does not hold it, and may not raise its fence

local call, holder, fence = redis.call, ARGV[1], tonumber(ARGV[2])
local record = call('GET', KEYS[2]) or ''
local last, rest = string.match(record, '^(%d+)( .*)$')
if not last then return 0 end
local shared = string.sub(rest, 1, 2) == ' ='
if not shared and call('GET', KEYS[1]) ~= holder then return 0 end
if shared and type(redis.pcall('ZSCORE', KEYS[1], holder)) ~= 'string' then return 0 end

-- include: _when_full
-- The hold of a reader or writer has the fence, too: in the record, or else apart.
local at = shared and string.find(rest, '\n' .. holder .. ' ', 1, true)
local hold, raised = shared and not at and call('HGET', KEYS[5], holder), rest
if at then
  local begins, own, ends = string.match(rest, '^%S+ %d+ ()(%d+)()', at + 1)
  if tonumber(own) < fence then
    raised = string.sub(rest, 1, begins - 1) .. ARGV[2] .. string.sub(rest, ends)
  end
end
if tonumber(last) < fence or raised ~= rest then
  local left = call('PTTL', KEYS[2])
  if tonumber(last) < fence then last = ARGV[2] end
  call('SET', KEYS[2], last .. raised, 'PX', string.format('%d', math.max(left, 1)))
end
if hold then
  local permits, own, options = string.match(hold, '^(%d+) (%d+)( .*)$')
  if tonumber(own) < fence then
    call('HSET', KEYS[5], holder, permits .. ' ' .. ARGV[2] .. options)
  end
end
return 1
