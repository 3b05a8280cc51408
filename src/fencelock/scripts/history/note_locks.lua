-- Notes names of locks that were just waited for or renewed, so that an overview finds them without SCAN.
-- A name that is noted again moves to the end (I4). The oldest are dropped.
--
-- KEYS  index   zset  name -> when it was noted last (server microseconds)
-- ARGV  1 how many names to keep   2 how long to keep them after the last one, ms   then names
-- Reply how many names were given
-- include: _now

-- include: _rights
local refused = lacks('PEXPIRE', 'ZREMRANGEBYRANK')
if refused then return refused end

for i = 3, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[1])
return #ARGV - 2
