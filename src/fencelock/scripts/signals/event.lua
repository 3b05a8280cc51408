-- Sets, clears, deletes or reads an event. Idempotent per request id (I4).
--
-- KEYS  state watch ids past   (see _signal.lua)
-- ARGV  1 set, clear, delete or look   2 how long the event is kept unused, ms   3 request id
--       4 server_timeout of the client, ms   then requests that need not be remembered any more
-- Reply 1 when it is set now, else 0

-- The usual look, before any function is built.
if ARGV[1] == 'look' and redis.pcall('HGET', KEYS[1], 'kind') == 'event' then
  local open = redis.call('HGET', KEYS[1], 'open')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(open)
end

-- include: signals/_signal

local refusal = wrong_kind('event')
if refusal then return refusal end

local answered = {unpack(ARGV, 5)}
if ARGV[1] ~= 'look' and not repeated(KEYS[3], ARGV[3], ARGV[4], answered) then
  if ARGV[1] == 'delete' then
    delete_state()  -- those that wait now continue to wait
    return 0
  end
  if not field('gen') then begin_state('event') end
  local was, new = field('open'), ARGV[1] == 'set' and '1' or '0'
  call('HSET', KEYS[1], 'open', new)
  if new == '1' and was == '0' then end_generation('open') end
end
call('PEXPIRE', KEYS[1], ARGV[2])
return number('open')
