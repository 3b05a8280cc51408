-- A party arrives at a barrier. Idempotent per waiter id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua   4 waiter   5 channel
--       6 1 when this party has an action to run, if it comes last
-- Reply {{word, generation, index or reason}}: wait; passed; broken; act: run the action, then pass;
--       full: the action runs, or a party may be dead: wait for the end of this generation or for a
--       notification, and arrive again
-- include: signals/_signal
-- include: signals/_barrier

local waiter, channel = ARGV[4], ARGV[5]
local refusal = wrong_kind('barrier')
if refusal then return refusal end
if call('HGET', KEYS[4], waiter) then return {reply_to(waiter)} end
refusal = wrong_parties(true)
if refusal then return refusal end
begin()

note_heartbeat()
remove_dead()
local gen, member = field('gen'), waiter .. ' ' .. channel
if field('broken') then return {{'broken', gen, field('broken')}} end
if is_full() then
  call('ZADD', KEYS[2], text(now), member)
  keep_keys()
  return {{'full', gen, ''}}
end
-- Remembered, and without a place: it left before this request came.
if not remember_id(waiter) then return {{'broken', gen, 'left'}} end

local index, rest = string.match(field('free'), '^(%d+) (.*)$')
if index then
  call('HSET', KEYS[1], 'free', rest)
else
  index = field('next')
  call('HSET', KEYS[1], 'next', index + 1)
end
local count = number('count') + 1
call('HSET', KEYS[1], 'count', count)
call('HSET', KEYS[4], waiter, gen .. ' ' .. index)
if count < tonumber(ARGV[1]) then
  call('ZADD', KEYS[2], text(now), member)
elseif ARGV[6] == '1' then
  call('HSET', KEYS[1], 'acting', member, 'acted', text(now))
else
  finish('passed')
end
keep_keys()
return {reply_to(waiter)}
