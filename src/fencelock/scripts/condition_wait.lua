-- Gives the lock back and waits on a condition, with no window between. Idempotent per waiter (I4).
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 holder   2 home   3 name of the condition   4 entry   5 waiter
-- Reply {{now us, 1}}           waiting, or notified since
--       {{now us, 0, revoked}}  not the holder; revoked is the operator's reason, or '' where
--                               somebody else holds, or nil
-- include: _fence
-- include: _line
-- include: _grant
-- include: _condition

local holder, member = ARGV[1], ARGV[3] .. ' ' .. ARGV[4]
local current = call('GET', KEYS[1])
if current ~= holder then
  if current == ARGV[5] or call('ZSCORE', KEYS[7], member) or call('ZSCORE', KEYS[3], ARGV[4]) then
    return {{now, 1}}
  end
  local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
  return {{now, 0, revoked == holder and reason or current and ''}}
end
call('ZADD', KEYS[7], after_the_last(KEYS[7]), member)
call('PEXPIRE', KEYS[7], QUEUE_MS)
if not grant_next(1, '', ARGV[2]) then call('DEL', KEYS[1]) end
return {{now, 1}}
