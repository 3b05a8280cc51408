-- Fragment: statements that set `fence`, the next one after the record `last` at the instant `now`.
-- No function: a script builds its functions at every call, and acquire.lua must be quick where the
-- lock is free.
--
-- It guards I3: never below the last fence plus one, never below the clock. Both are texts; those of
-- as many digits compare as their numbers do, and faster.

local fence = now
if last and not (last < now and string.byte(last, 17) == 32 and #now == 16) then
  local previous = tonumber(string.match(last, '^%d+'))
  if previous and previous >= tonumber(now) then fence = string.format('%.0f', previous + 1) end
end
