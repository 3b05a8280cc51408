-- Fragment: how a waiter joins a line. Included by each script that adds one.
--
-- It guards I5 (first come, first served): arrival is the server's clock, and always after the last
-- entry, even when the clock was set back.

-- constants: WAITERS_MS

-- Adds an entry at the end of the line in `key`, and returns its position; an entry that is there keeps
-- its place. `now` is a text. An entry that waited elsewhere has its place by its `arrival`, unless the
-- clock was set back: then it is unknown who came first.
local function enqueue(key, entry, now, arrival)
  local added = redis.call('ZADD', key, 'NX', arrival or now, entry)
  redis.call('PEXPIRE', key, WAITERS_MS)
  local position = redis.call('ZRANK', key, entry)
  if added == 0 or position == redis.call('ZCARD', key) - 1 then return position end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if arrival and tonumber(last[2]) <= tonumber(now) then return position end
  redis.call('ZADD', key, string.format('%.0f', tonumber(last[2]) + 1), entry)
  return redis.call('ZRANK', key, entry)
end
