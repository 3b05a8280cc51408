-- Fragment: how a waiter joins a line. Included by each script that adds one.
--
-- It guards I5 (first come, first served): arrival is the server's clock, and always after the last
-- entry, even when the clock was set back.

-- constants: WAITERS_MS

-- Adds an entry at the end of the line in `key`; an entry that is there keeps its place.
-- `now` is a text. What must be read is read first: a user that may not read leaves no entry.
local function enqueue(key, entry, now)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local arrival = now
  if last[2] and tonumber(last[2]) >= tonumber(now) then
    arrival = string.format('%.0f', tonumber(last[2]) + 1)
  end
  redis.call('ZADD', key, 'NX', arrival, entry)
  redis.call('PEXPIRE', key, WAITERS_MS)
end
