-- Looks whether locks in Redisson's layout are still held, for clients that wait: the message that says so
-- may be lost (I6). Changes nothing.
--
-- KEYS  lock, for each line
-- ARGV  as heartbeat.lua: 1 client channel, then per line how many waiters, and a word for each
-- Reply as heartbeat.lua: {now us, {'', '', pttl ms, 0, {position, …}} …}; a position is -1 when the lock is
--       free: the waiter asks again
-- include: _now

local reply, at = {tonumber(now)}, 2
for i = 1, #KEYS do
  local count, places = tonumber(ARGV[at]), {}
  local place = redis.call('EXISTS', KEYS[i]) == 1 and 0 or -1
  for n = 1, count do places[n] = place end
  reply[i + 1] = {'', '', redis.call('PTTL', KEYS[i]), 0, places}
  at = at + 1 + count
end
return reply
