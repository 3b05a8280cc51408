-- Fragment: statements that end a script whose user may not do all that a change of permits takes, see
-- _shares.lua. Included before the first write, by each script that changes some.

-- include: _rights

local refused = lacks('DEL', 'EXISTS', 'HDEL', 'HGET', 'HSET', 'PEXPIRE', 'SET', 'TYPE', 'ZADD', 'ZRANGE',
  'ZRANGEBYSCORE', 'ZREM', 'ZSCORE')
if refused then return refused end
