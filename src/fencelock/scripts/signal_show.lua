-- Reads an event, latch or barrier for people: changes nothing.
--
-- KEYS  state watch   (see _signal.lua)
-- Reply {kind or '', open, count left or who have come, of how many, why broken or '', how many
--        connections wait, pttl ms}

local call = redis.call
if call('TYPE', KEYS[1]).ok ~= 'hash' then return {'', 0, 0, 0, '', 0, 0} end
local function number(name) return tonumber(call('HGET', KEYS[1], name) or 0) end
return {call('HGET', KEYS[1], 'kind') or '', number('open'), number('left') + number('count'),
  number('of') + number('parties'), call('HGET', KEYS[1], 'broken') or '',
  call('ZCARD', KEYS[2]), call('PTTL', KEYS[1])}
