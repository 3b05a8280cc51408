-- Undoes an acquire that its client gave up: leaves the line, and releases the grant (I9). Idempotent,
-- and harmless when the acquire never ran.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 holder   2 waiter entry, or '' when it cannot be in line   3 client channel
-- Reply {left the line, released a grant, now us, whose}   the first two 0 or 1; whose: "fence info" of
--       the first holder, or ''
-- include: shares/_shares
-- include: shares/_shares_line

-- include: shares/_rights
-- include: _when_full
local s = open(1)
if not (s and s.kind) then return {0, 0, 0, ''} end
local left, released = 0, 0
if ARGV[2] ~= '' then left = call('ZREM', KEYS[3], ARGV[2]) end
local held = call('HGET', KEYS[5], ARGV[1])
if held then
  give_back(s, ARGV[1], 0, held)
  released = 1
end
serve(s, '', ARGV[3])
save(s)
return {left, released, s.now, first_holder(s)}
