-- Ends a wait on a condition: to acquire the lock again, or for good (I9). Idempotent, and harmless when
-- the wait never began: then it releases the lock, so that a late request to wait changes nothing.
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 holder before the wait   2 client channel   3 name of the condition   4 entry   5 waiter
--       6 back: the waiter comes for the lock; quit: it does not, and its notification goes to another
-- Reply 1 when it was notified, else 0
-- include: signals/_condition

local quits, current = ARGV[6] == 'quit', call('GET', KEYS[1])
local mark = 'told ' .. ARGV[3] .. ' ' .. ARGV[5]
call('ZREM', KEYS[7], ARGV[3] .. ' ' .. ARGV[4])
local notified = call('ZSCORE', KEYS[8], mark) and 1 or 0
if quits then
  if notified == 1 then
    call('ZREM', KEYS[8], mark)
    notify(ARGV[3], 1)
  end
  call('ZREM', KEYS[3], ARGV[4])
end
-- The holder from before the wait still holds: the wait never began, or its acquire ran once more.
if current == ARGV[1] or quits and current == ARGV[5] then
  hand_over(1, ARGV[2])
elseif quits and not current then
  grant_next(1, '', ARGV[2])
end
return notified
