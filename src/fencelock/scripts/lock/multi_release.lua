-- Releases several locks, each to the next waiter in its line. Only the holders may; a lock that is not
-- held is left alone. So it also undoes multi_acquire.lua.
--
-- KEYS  per lock: lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 client channel   then per lock: holder
-- Reply per lock: 1      released
--                 text   not the holder: the operator's reason when it was revoked, '' when another
--                        client holds
--                 nil    no client holds
-- include: lock/_lock
-- include: lock/_rights
refused = lacks('EXISTS', 'ZPOPMIN')
if refused then return refused end

local reply = {}
for i = 1, #KEYS / 6 do
  local base, holder = (i - 1) * 6 + 1, ARGV[i + 1]
  if redis.pcall('GET', KEYS[base]) == holder then  -- an error when the key is of another kind by now
    hand_over(base, ARGV[1])
    reply[i] = 1
  else
-- include: _not_holder
    reply[i] = reason
  end
end
return reply
