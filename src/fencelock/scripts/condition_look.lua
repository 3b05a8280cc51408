-- Proves that a client's waiters live, tells where they are, and passes on what the dead were told
-- (I6, I7). One call for all of a client that wait on conditions of one lock.
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 home   then per waiter: name of the condition, entry, waiter
-- Reply per waiter {now us, 1 when it still waits}
-- include: _fence
-- include: _line
-- include: _grant
-- include: _condition

call('ZADD', KEYS[4], whole(now), ARGV[1])
for i = 3, 7 do
  if i == 3 or i == 4 or i == 7 then call('PEXPIRE', KEYS[i], QUEUE_MS) end
end
for _, member in ipairs(call('ZRANGE', KEYS[8], 0, -1)) do
  local name, waiter = string.match(member, '^told (%S+) (%S+)$')
  if name and call('ZREM', KEYS[4], 'dead ' .. waiter) == 1 then
    call('ZREM', KEYS[8], member)
    notify(name, 1)
  end
end
-- Whoever was moved to a lock that is free goes first.
if call('EXISTS', KEYS[1]) == 0 then grant_next(1, '', ARGV[1]) end

local replies = {}
for i = 2, #ARGV, 3 do
  local waits = call('ZSCORE', KEYS[7], ARGV[i] .. ' ' .. ARGV[i + 1])
  replies[#replies + 1] = {now, waits and 1 or 0}
end
return replies
