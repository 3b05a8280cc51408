-- Counts a latch down, closes it again, deletes or reads it. Idempotent per request id (I4).
--
-- KEYS  state watch ids past   (see _signal.lua)
-- ARGV  1 count_down, reset, delete or look   2 how long the latch is kept unused, ms   3 request id
--       4 the count it begins with   5 by how much it is counted down
--       6 server_timeout of the client, ms   then requests that need not be remembered any more
-- Reply the count that is left; 0: open
-- include: signals/_signal
-- include: signals/_latch

local refusal = wrong_kind('latch')
if refusal then return refusal end

local what, of = ARGV[1], field('of')
local answered = {unpack(ARGV, 7)}
if what == 'delete' then
  if not repeated(KEYS[3], ARGV[3], ARGV[6], answered) then delete_state() end
  return tonumber(ARGV[4])
end
local differs = of and of ~= ARGV[4]
if what ~= 'look' and call('ZSCORE', KEYS[3], ARGV[3]) then return number('left') end
if differs and not may_change(what == 'reset') then return other_count(ARGV[4]) end
if what == 'look' then
  call('PEXPIRE', KEYS[1], ARGV[2])
  return of and not differs and number('left') or tonumber(ARGV[4])
end

repeated(KEYS[3], ARGV[3], ARGV[6], answered)
if not of then begin_state('latch') end
if not of or differs or what == 'reset' then close(ARGV[4]) end
if what == 'count_down' and number('open') == 0 then
  local left = math.max(0, number('left') - tonumber(ARGV[5]))
  call('HSET', KEYS[1], 'left', text(left))
  if left == 0 then
    call('HSET', KEYS[1], 'open', 1)
    end_generation('open')
  end
end
call('PEXPIRE', KEYS[1], ARGV[2])
return number('left')
