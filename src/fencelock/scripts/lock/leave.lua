-- Releases a lock later: its lease goes on under an id that no client has, and ends by itself. So no
-- renewal that comes late revives it (I15), and it is shown as it was. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 holder, of no explicit owner   2 how long it lasts from now, ms
-- Reply 1              left
--       {-1, reason}   not the holder; see release.lua

-- constants: RECORD_MS LEFT

local call, holder, base = redis.call, ARGV[1], 1
local current, left = redis.pcall('GET', KEYS[1]), ARGV[1] .. LEFT  -- an error: of another kind by now
if current == left then return 1 end
if current ~= holder then
-- include: _not_holder
  return {-1, reason}
end
-- include: _look_again
local fence, granted, options = string.match(call('GET', KEYS[2]) or '', '^(%d+ )(%S+)( .*)$')
-- include: _rights
local lacking = lacks('SET', 'ZRANGE')
if lacking then return lacking end
-- include: _when_full
call('SET', KEYS[1], left, 'PX', ARGV[2])
if granted == holder then
  call('SET', KEYS[2], fence .. left .. options, 'PX', string.format('%d', RECORD_MS + ARGV[2]))
end
look_again(KEYS[3])
return 1
