-- Reads an event, latch or barrier, for people. Changes nothing.
--
-- KEYS  state watch   (see _signal.lua)
-- Reply {kind or '', open, count left or parties that arrived, of how many, why broken or '', how many
--        clients wait, pttl ms}

local call = redis.call
if call('TYPE', KEYS[1]).ok ~= 'hash' then return {'', 0, 0, 0, '', 0, 0} end
-- include: signals/_fields
return {field('kind') or '', number('open'), number('left') + number('count'),
  number('of') + number('parties'), field('broken') or '',
  call('ZCARD', KEYS[2]), call('PTTL', KEYS[1])}
