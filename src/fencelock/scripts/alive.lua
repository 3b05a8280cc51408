-- Proves that a client's waiters live, moves a line whose holder is gone, and tells where the
-- waiters stand (I6, I7). One call for many locks.
--
-- KEYS  per lock: lock record queue alive holds   (see _grant.lua)
-- ARGV  1 home of the client, then per lock: n, and n waiter entries
-- Reply {now us, per lock {holder or '', fence, pttl ms, foreign, {position or -1 per entry}}}
--       where a name is another kind of thing by now, nobody is in line: its waiters ask again, and
--       are refused, while all others go on
-- include: _fence
-- include: _line
-- include: _grant

local FORGET_US = 60000000  -- proofs older than any patience are dropped

local now, base, arg = clock(), 1, 2
local reply, forgotten = {tonumber(now)}, string.format('%.0f', now - FORGET_US)
local function look(holder)
  redis.call('ZADD', KEYS[base + 3], now, ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[base + 3], '-inf', forgotten)
  redis.call('PEXPIRE', KEYS[base + 3], QUEUE_MS)
  redis.call('PEXPIRE', KEYS[base + 2], QUEUE_MS)
  if not holder then
    grant_next(base, '', ARGV[1])
    holder = redis.call('GET', KEYS[base])
  end
  local fence, granted = string.match(redis.call('GET', KEYS[base + 1]) or '', '^(%d+) (%S+)')
  return {holder or '', tonumber(fence or 0), redis.call('PTTL', KEYS[base]),
    (holder and granted ~= holder) and 1 or 0}
end

while base <= #KEYS do
  local holder, answer = redis.pcall('GET', KEYS[base]), {'', 0, -1, 0}
  local is_lock = type(holder) ~= 'table'
  if is_lock then
    answer = look(holder)
  elseif not string.find(holder.err, 'WRONGTYPE') then
    return holder
  end
  local positions, n = {}, tonumber(ARGV[arg])
  for i = 1, n do
    positions[i] = is_lock and redis.call('ZRANK', KEYS[base + 2], ARGV[arg + i]) or -1
  end
  answer[5] = positions
  reply[#reply + 1] = answer
  base, arg = base + 5, arg + n + 1
end
return reply
