-- Fragment: the holds of the usual case, which stand in the record; see _shares.lua.

-- Returns the hold of a holder that stands in the record, or nil.
local function recorded_hold(record, holder)
  local at = string.find(record, '\n' .. holder .. ' ', 1, true)
  return at and string.match(record, '^%S+ ([^\n]*)', at + 1)
end
