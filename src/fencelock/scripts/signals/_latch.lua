-- Fragment: the count of a latch. Included after _signal.lua.
--
--   state  hash  besides what _signal.lua says: of: the count it began with; left: what is left of it

-- Returns true if a latch may take another count: no client waits, and it was not counted down yet, or
-- it is open and this request closes it.
local function may_change(resets)
  local unused = number('open') == 0 and field('left') == field('of')
  return (unused or (resets and number('open') == 1)) and not awaited()
end

local function close(of) call('HSET', KEYS[1], 'open', 0, 'of', of, 'left', of) end

local function other_count(of)
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a latch of ' .. field('of') .. ', not of '
    .. of)
end
