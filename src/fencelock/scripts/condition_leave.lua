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

local waited = call('ZREM', KEYS[7], ARGV[3] .. ' ' .. ARGV[4])
local current = call('GET', KEYS[1])
if current == ARGV[1] then
  hand_over()
  return 0
end
if waited == 1 then return 0 end
local told = call('ZSCORE', KEYS[8], 'told ' .. ARGV[3] .. ' ' .. ARGV[5]) and 1 or 0
if ARGV[6] == 'quit' then
  if told == 1 then
    call('ZREM', KEYS[8], 'told ' .. ARGV[3] .. ' ' .. ARGV[5])
    notify(ARGV[3], 1)
  end
  call('ZREM', KEYS[3], ARGV[4])
  if current == ARGV[5] then hand_over() elseif not current then grant_next(1, '', ARGV[2]) end
end
return told
