-- Undoes an acquire that its client gave up: leaves the line, and releases the grant (I9). Idempotent,
-- and harmless when the acquire never ran.
--
-- KEYS  lock record queue alive holds   (see _lock.lua)
-- ARGV  1 waiter   2 holder   3 owned   4 waiter entry, or '' when it cannot be in line   5 client channel
-- Reply {left the line, released a grant, now us, whose}   the first two 0 or 1; whose: "fence info" of
--       another holder, or ''
-- include: lock/_lock
-- include: lock/_whose
-- include: lock/_rights

refused = lacks('GET', 'SCARD', 'SREM', 'ZPOPMIN')
if refused then return refused end

local left, released = 0, 0
if ARGV[4] ~= '' then left = call('ZREM', KEYS[3], ARGV[4]) end
local current, by = call('GET', KEYS[1]), ''
if current == ARGV[2] then
  -- An explicit owner may hold the lock by other acquisitions: those stay.
  local last = true
  if ARGV[3] == '1' then
    released = call('SREM', KEYS[5], ARGV[1])
    last = released == 1 and call('SCARD', KEYS[5]) == 0
  end
  if last then
    released = 1
    hand_over(1, ARGV[5])
  end
elseif not current then
  grant_next(1, '', ARGV[5])
else
  by = whose(call('GET', KEYS[2]), current)
end
return {left, released, tonumber(clock()), by}
