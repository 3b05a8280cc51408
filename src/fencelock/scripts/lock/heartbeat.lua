-- Keeps the heartbeat of a client that waits, grants a lock whose holder is gone, and says where the
-- client's waiters are in line (I6, I7). One call for many locks.
--
-- KEYS  per lock: lock record queue alive holds   (see _lock.lua)
-- ARGV  1 channel of the client, then per lock: n, and n waiter entries; m, and m members "n waiter
--       count" of `alive`, which tell people how many wait for a place, where it is that of several
-- Reply {now us, per lock {holder or '', whose, pttl ms, foreign, {position or -1 per entry}}}
--       whose: "fence info" of the holder, '' if it is foreign or there is none.
--       Where a name is another kind of thing by now, no waiter is in line: those of this client ask
--       again, and are refused. The other locks are served.
-- include: lock/_lock
-- include: _heartbeat
-- include: lock/_recall
-- include: lock/_whose

-- include: lock/_rights
refused = lacks('GET', 'PTTL', 'ZPOPMIN', 'ZRANK', 'ZREMRANGEBYSCORE')
if refused then return refused end

-- include: _when_full
local now, base, arg = clock(), 1, 2
local reply = {tonumber(now)}

local function serve_lock(holder)
  heartbeat(base, now, ARGV[1])
  if not holder then
    grant_next(base, '', ARGV[1])
    holder = call('GET', KEYS[base])
  end
  local record = call('GET', KEYS[base + 1]) or ''
  local by = whose(record, holder)
  if holder then recall_lease(record, holder, '-', '-') end
  return {holder or '', by, call('PTTL', KEYS[base]), (holder and by == '') and 1 or 0}
end

while base <= #KEYS do
  local holder, answer = redis.pcall('GET', KEYS[base]), {'', '', -1, 0}
  local is_lock = type(holder) ~= 'table'
  if is_lock then
    answer = serve_lock(holder)
  elseif not string.find(holder.err, 'WRONGTYPE') then
    return holder
  end
  local positions, n = {}, tonumber(ARGV[arg])
  for i = 1, n do
    positions[i] = is_lock and call('ZRANK', KEYS[base + 2], ARGV[arg + i]) or -1
  end
  answer[5] = positions
  reply[#reply + 1] = answer
  base, arg = base + 5, arg + n + 1
  local m = tonumber(ARGV[arg])
  if is_lock then
    for i = 1, m do remember(base - 5, now, ARGV[arg + i]) end
  end
  arg = arg + m + 1
end
return reply
