-- Undoes an acquire that nobody waits for any more: leaves the line, gives back the grant (I9).
-- Idempotent, and harmless when the acquire never ran.
--
-- KEYS  lock record queue alive holds   (see _grant.lua)
-- ARGV  1 waiter   2 holder   3 owned   4 entry, or '' when it cannot be in line   5 home
-- Reply {left the line, gave back a grant}   each 0 or 1
-- include: _fence
-- include: _line
-- include: _grant

local left, gave = 0, 0
if ARGV[4] ~= '' then left = redis.call('ZREM', KEYS[3], ARGV[4]) end
local current = redis.call('GET', KEYS[1])
if current == ARGV[2] then
  -- An explicit owner may hold the lock by other acquisitions: those stay.
  local last = true
  if ARGV[3] == '1' then
    gave = redis.call('SREM', KEYS[5], ARGV[1])
    last = gave == 1 and redis.call('SCARD', KEYS[5]) == 0
  end
  if last then
    gave = 1
    if not grant_next(1, '', ARGV[5]) then redis.call('DEL', KEYS[1]) end
  end
elseif not current then
  grant_next(1, '', ARGV[5])
end
return {left, gave}
