-- Fragment: statements that set `fence`: the fence that follows the record `last` at the instant `now`.
-- Not a function: a script builds its functions at each call, and acquire.lua must be quick when the
-- lock is free.
--
-- It guards I3: a fence is greater than the last one, and not below the clock; where the clock does not
-- see to that, it leaves room for the turns that a client took after the last grant. Both are texts.
-- Texts of equal length compare as their numbers do, and faster.

-- constants: FENCE_ROOM

local fence = now
if last and not (last < now and string.byte(last, 17) == 32 and #now == 16) then
  local previous = tonumber(string.match(last, '^%d+'))
  if previous and previous >= tonumber(now) then
    fence = string.format('%.0f', previous + FENCE_ROOM)
  end
end
