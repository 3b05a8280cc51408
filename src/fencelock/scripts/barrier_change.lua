-- Lets a full barrier pass, aborts it, resets it, or looks at it. Idempotent per id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 parties   2 how long the barrier is kept unused, ms   3 pass, abort, reset or look
--       4 request id; to pass: the waiter that ran the action
-- Reply {how many wait, why it is broken or ''}; to pass: {word, generation, index or reason}
-- include: _signal
-- include: _barrier

local trouble = unfit(ARGV[1])
if trouble then return trouble end

local what, id = ARGV[3], ARGV[4]
if what == 'pass' then
  if told(id)[1] == 'act' then finish('passed') end
  keep(ARGV[2])
  return told(id)
end
if what ~= 'look' and note(id) then
  begin(ARGV[1])
  if what == 'abort' and not field('broken') then break_up('abort') end
  if what == 'reset' then
    if number('count') > 0 then finish('reset') end
    call('HDEL', KEYS[1], 'broken')
  end
elseif what == 'look' then
  bury()
end
keep(ARGV[2])
return {number('count'), field('broken') or ''}
