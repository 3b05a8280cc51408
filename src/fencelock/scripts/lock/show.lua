-- Lists the holder and the waiters of one lock, for people. Changes nothing.
--
-- KEYS  lock record queue   (see _lock.lua)
-- ARGV  1 how many waiters to list
-- Reply {now us, type of the lock key, holder or '', pttl ms, record or '', waiters in line,
--        {entry, arrival us, …}}
-- include: _now

local kind = redis.call('TYPE', KEYS[1]).ok
return {tonumber(now), kind, kind == 'string' and redis.call('GET', KEYS[1]) or '',
  redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('ZCARD', KEYS[3]),
  ARGV[1] == '0' and {} or redis.call('ZRANGE', KEYS[3], 0, ARGV[1] - 1, 'WITHSCORES')}
