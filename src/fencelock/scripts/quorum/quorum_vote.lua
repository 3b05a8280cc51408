-- Acquires the lock on a further node of a quorum, for a client that has it on another. Idempotent (I4).
--
-- KEYS  lock record queue alive holds   (see _lock.lua)
-- ARGV  1 holder   2 ttl ms   3 terms   4 the least fence: that of the first node
-- Reply fence       granted
--       {pttl ms}   another client holds it
--
-- It waits in no line, and does not look at the one that may be here: a waiter of this node would have
-- to ask the other nodes, too, and they are about to grant to this client.
-- include: _fence
-- include: lock/_record
-- include: lock/_prolong

local holder, ttl = ARGV[1], tonumber(ARGV[2])
local record, current = call('GET', KEYS[2]), redis.pcall('GET', KEYS[1])
local other = record and string.match(record, '^%d+ =(%l+) ')
if type(current) == 'table' or other and not current and call('EXISTS', KEYS[3]) == 1 then
  if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
  return redis.error_reply('WRONGTYPE the name holds ' .. (other and 'a ' .. other or 'no lock'))
end

if current and current ~= holder then return {call('PTTL', KEYS[1])} end
if current then
  -- A repeated request: a full lease, and the fence that it has.
  prolong(KEYS[1], ttl)
  prolong(KEYS[2], RECORD_MS + ttl)
  local granted, by = string.match(record or '', '^(%d+) (%S+)')
  if by == holder then return granted end
end
-- The first node's fence is used in place of the clock: so nearly always all nodes record one fence.
local fence = next_fence(record, ARGV[4])
write_record(1, fence, holder, ARGV[3], ttl)
call('SET', KEYS[1], holder, 'PX', ttl)
return fence
