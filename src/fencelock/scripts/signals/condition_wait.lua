-- Releases the lock and waits on a condition, in one step. Idempotent per waiter (I4).
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 holder   2 client channel   3 name of the condition   4 entry   5 waiter
-- Reply {{now us, 1}}           waiting, or notified since
--       {{now us, 0, reason}}   not the holder: the operator's reason when it was revoked, '' when
--                               another client holds, nil when none does
-- include: signals/_condition

local holder, member, base = ARGV[1], ARGV[3] .. ' ' .. ARGV[4], 1
local current = call('GET', KEYS[1])
if current ~= holder then
  if current == ARGV[5] or call('ZSCORE', KEYS[7], member) or call('ZSCORE', KEYS[3], ARGV[4]) then
    return {{now, 1}}
  end
-- include: _not_holder
  return {{now, 0, reason}}
end
enqueue(KEYS[7], member, text(now))
hand_over(1, ARGV[2])
return {{now, 1}}
