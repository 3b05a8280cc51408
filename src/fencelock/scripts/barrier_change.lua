-- Lets a full barrier pass, aborts it, resets it, deletes it, or looks at it. Idempotent per id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua   4 pass, abort, reset, delete or look
--       5 request id; to pass: the waiter that ran the action
-- Reply {how many wait, why it is broken or ''}; to pass: {word, generation, index or reason}
-- include: _signal
-- include: _barrier

local trouble = refused('barrier')
if trouble then return trouble end

local what, id = ARGV[4], ARGV[5]
if what == 'pass' then
  if told(id)[1] == 'act' then finish('passed') end
  keep()
  return told(id)
end
if what ~= 'delete' and not call('ZSCORE', KEYS[3], id) then
  trouble = unfit(what ~= 'look')
  if trouble then return trouble end
end
if what == 'look' then
  if field('gen') then hear() end
  bury()
elseif not call('ZSCORE', KEYS[3], id) then
  if what ~= 'delete' then begin() end
  note(id)
  if what == 'abort' and not field('broken') then break_up('abort') end
  if what == 'reset' then
    if number('count') > 0 then finish('reset') end
    call('HDEL', KEYS[1], 'broken')
  end
  if what == 'delete' and field('gen') then
    finish('deleted')
    call('DEL', KEYS[1], KEYS[4])
  end
end
keep()
return {number('count'), field('broken') or ''}
