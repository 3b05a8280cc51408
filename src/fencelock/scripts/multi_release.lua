-- Gives several locks back, each to the next in line for it. Only the holders may; what is not held
-- is left alone. So it also undoes multi_take.lua.
--
-- KEYS  per lock: lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 home   then per lock: holder
-- Reply per lock: 1      released
--                 text   not the holder; the operator's reason, or '' where somebody else holds
--                 nil    nobody holds
-- include: _fence
-- include: _line
-- include: _grant

local reply = {}
for i = 1, #KEYS / 6 do
  local base, holder = (i - 1) * 6 + 1, ARGV[i + 1]
  if redis.pcall('GET', KEYS[base]) == holder then  -- an error when it is another kind by now
    if not grant_next(base, '', ARGV[1]) then redis.call('DEL', KEYS[base]) end
    reply[i] = 1
  else
    local revoked, reason = string.match(redis.call('GET', KEYS[base + 5]) or '', '^(%S+) (.*)$')
    reply[i] = revoked == holder and reason or redis.call('EXISTS', KEYS[base]) == 1 and ''
  end
end
return reply
