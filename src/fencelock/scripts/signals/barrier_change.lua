-- Lets the parties of a full barrier pass; aborts, resets, deletes or reads a barrier. Idempotent per
-- id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua   4 pass, abort, reset, delete or look
--       5 request id; to pass: the waiter that ran the action
-- Reply {how many wait, why it is broken or ''}; to pass: {word, generation, index or reason}
-- include: signals/_signal
-- include: signals/_barrier

local refusal = wrong_kind('barrier')
if refusal then return refusal end

-- include: _when_full
local what, id = ARGV[4], ARGV[5]
if what == 'pass' then
  if reply_to(id)[1] == 'act' then finish('passed') end
  keep_keys()
  return reply_to(id)
end
if what ~= 'delete' and not call('ZSCORE', KEYS[3], id) then
  refusal = wrong_parties(what ~= 'look')
  if refusal then return refusal end
end
if what == 'look' then
  if field('gen') then note_heartbeat() end
  remove_dead()
elseif not call('ZSCORE', KEYS[3], id) then
  if what ~= 'delete' then begin() end
  remember_id(id)
  if what == 'abort' and not field('broken') then break_up('abort') end
  if what == 'reset' then
    if number('count') > 0 then finish('reset') end
    call('HDEL', KEYS[1], 'broken')
  end
  if what == 'delete' and field('gen') then
    finish('deleted')
    delete_state()
  end
end
keep_keys()
return {number('count'), field('broken') or ''}
