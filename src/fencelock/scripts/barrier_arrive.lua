-- A party arrives at a barrier. Idempotent per waiter id (I4).
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 parties   2 how long the barrier is kept unused, ms   3 waiter   4 channel
--       5 1 when this party has an action to run, if it comes last
-- Reply {{word, generation, index or reason}}: wait; passed; broken; act: run the action, then say so;
--       full: the action runs, wait for the end of this generation and come again
-- include: _signal
-- include: _barrier

local parties, waiter, channel = ARGV[1], ARGV[3], ARGV[4]
local trouble = unfit(parties)
if trouble then return trouble end
begin(parties)

if call('HGET', KEYS[4], waiter) then return {told(waiter)} end
bury()
local gen, member = field('gen'), waiter .. ' ' .. channel
if field('broken') then return {{'broken', gen, field('broken')}} end
if field('acting') then
  call('ZADD', KEYS[2], whole(now), member)
  keep(ARGV[2])
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
if count < tonumber(parties) then
  call('ZADD', KEYS[2], whole(now), member)
elseif ARGV[5] == '1' then
  call('HSET', KEYS[1], 'acting', member)
else
  finish('passed')
end
keep(ARGV[2])
return {told(waiter)}
