-- Acquires the lock on a further node of a quorum, for a client that has it on another. Idempotent (I4).
--
-- KEYS  lock record queue alive holds   (see _lock.lua)
-- ARGV  1 holder   2 ttl ms   3 options   4 the least fence: that of the first node
-- Reply fence       granted
--       {pttl ms}   another client holds it
--
-- It waits in no line, and does not look at the one that may be here: a waiter of this node would have
-- to ask the other nodes, too, and they are about to grant to this client.
-- constants: RECORD_MS

local call, holder, ttl = redis.call, ARGV[1], tonumber(ARGV[2])
local last, current = call('GET', KEYS[2]), redis.pcall('GET', KEYS[1])
-- The record of another kind of object has " =" after its fence.
if type(current) == 'table' or not current and last and string.find(last, ' =', 1, true) then
  local other = last and string.match(last, '<shares: kind> ')
  if type(current) == 'table' or other and call('EXISTS', KEYS[3]) == 1 then
    if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
    return redis.error_reply('WRONGTYPE the name holds ' .. (other and 'a ' .. other or 'no lock'))
  end
end

if current and current ~= holder then return {call('PTTL', KEYS[1])} end
if current then
  -- A repeated request: a full lease, and the fence that it has.
-- include: _rights
  local refused = lacks('PTTL', 'SET')
  if refused then return refused end
-- include: lock/_prolong
  prolong(KEYS[1], ttl)
  prolong(KEYS[2], RECORD_MS + ttl)
  local granted, by = string.match(last or '', '<record: fence holder>')
  if by == holder then return granted end
end
-- The first node's fence is used in place of the clock: so nearly always all nodes record one fence.
local now = ARGV[4]
-- include: _next_fence
call('SET', KEYS[2], fence .. ' ' .. holder .. ' ' .. ARGV[3], 'PX', RECORD_MS + ttl)
call('SET', KEYS[1], holder, 'PX', ARGV[2])
return fence
