-- Keeps the heartbeat of a client, says which of its waiters still wait, and passes on the notifications
-- of dead waiters (I6, I7). One call for all waiters of a client on the conditions of one lock.
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 client channel   then per waiter: name of the condition, entry, waiter
-- Reply per waiter {now us, 1 when it still waits}
-- include: signals/_condition

remember(1, text(now), ARGV[1])
call('PEXPIRE', KEYS[3], WAITERS_MS)
call('PEXPIRE', KEYS[7], WAITERS_MS)
for _, member in ipairs(call('ZRANGE', KEYS[8], 0, -1)) do
  local name, waiter = string.match(member, '^told (%S+) (%S+)$')
  if name and call('ZREM', KEYS[4], 'dead ' .. waiter) == 1 then
    call('ZREM', KEYS[8], member)
    notify(name, 1)
  end
end
-- The lock may be free: then the first waiter that was notified is granted.
if call('EXISTS', KEYS[1]) == 0 then grant_next(1, '', ARGV[1]) end

local replies = {}
for i = 2, #ARGV, 3 do
  local waits = call('ZSCORE', KEYS[7], ARGV[i] .. ' ' .. ARGV[i + 1])
  replies[#replies + 1] = {now, waits and 1 or 0}
end
return replies
