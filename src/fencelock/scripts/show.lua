-- Reads one lock for people: changes nothing.
--
-- KEYS  lock record queue   (see _grant.lua)
-- ARGV  1 how many waiters to list
-- Reply {now us, type of the lock key, holder or '', pttl ms, record or '', waiters in line,
--        {entry, arrival us, …}}

local kind = redis.call('TYPE', KEYS[1]).ok
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], kind, kind == 'string' and redis.call('GET', KEYS[1]) or '',
  redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('ZCARD', KEYS[3]),
  ARGV[1] == '0' and {} or redis.call('ZRANGE', KEYS[3], 0, ARGV[1] - 1, 'WITHSCORES')}
