-- Ends a wait on a condition: to take the lock again, or for good (I9). Idempotent, and harmless when
-- the wait never began: then it gives the lock back, so that a late request to wait finds nothing.
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 holder before the wait   2 home   3 name of the condition   4 entry   5 waiter
--       6 back: the waiter comes for the lock; quit: it does not, and passes on what it was told
-- Reply 1 when it was notified, else 0
-- include: _fence
-- include: _line
-- include: _grant
-- include: _condition

local function hand_over()
  if not grant_next(1, '', ARGV[2]) then call('DEL', KEYS[1]) end
end

local quits, current = ARGV[6] == 'quit', call('GET', KEYS[1])
local mark = 'told ' .. ARGV[3] .. ' ' .. ARGV[5]
call('ZREM', KEYS[7], ARGV[3] .. ' ' .. ARGV[4])
local told = call('ZSCORE', KEYS[8], mark) and 1 or 0
if quits then
  if told == 1 then
    call('ZREM', KEYS[8], mark)
    notify(ARGV[3], 1)
  end
  call('ZREM', KEYS[3], ARGV[4])
end
-- The holder is the one before the wait: the wait never began, or its acquire came once more, late.
if current == ARGV[1] or quits and current == ARGV[5] then
  hand_over()
elseif quits and not current then
  grant_next(1, '', ARGV[2])
end
return told
