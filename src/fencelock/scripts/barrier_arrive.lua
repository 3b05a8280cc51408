-- A party arrives at a barrier. Idempotent per waiter id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua   4 waiter   5 channel
--       6 1 when this party has an action to run, if it comes last
-- Reply {{word, generation, index or reason}}: wait; passed; broken; act: run the action, then say so;
--       full: the action runs, or a party may be dead: wait for the end of this generation, or until
--       told, and come again
-- include: _signal
-- include: _barrier

local waiter, channel = ARGV[4], ARGV[5]
local trouble = refused('barrier')
if trouble then return trouble end
if call('HGET', KEYS[4], waiter) then return {told(waiter)} end
trouble = unfit(true)
if trouble then return trouble end
begin()

hear()
bury()
local gen, member = field('gen'), waiter .. ' ' .. channel
if field('broken') then return {{'broken', gen, field('broken')}} end
if shut() then
  call('ZADD', KEYS[2], whole(now), member)
  keep()
  return {{'full', gen, ''}}
end
-- Known, and without a place: it left before this request came.
if not note(waiter) then return {{'broken', gen, 'left'}} end

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
  call('ZADD', KEYS[2], whole(now), member)
elseif ARGV[6] == '1' then
  call('HSET', KEYS[1], 'acting', member, 'acted', whole(now))
else
  finish('passed')
end
keep()
return {told(waiter)}
