-- Acquires the lock, or a place in line for it. Idempotent per waiter id (I4).
--
-- KEYS  lock record queue alive holds   (see _lock.lua)
-- ARGV  1 holder
--       2 the waiter entry without its options, or '' for an attempt that does not wait in line
--       3 ttl ms
--       4 how long the record is kept, ms
--       5 options
--       6 waiter, only of an explicit reentrant owner: for others the holder id names the request, too
--       9 only as a part of acquire_next.lua
-- Reply fence                                    granted
--       {now us, pttl ms, position, foreign, whose}   held; position 0 is the head, -1 is not in line,
--                                                foreign 1: the holder is no fencelock client;
--                                                2: its client may keep it while it is idle, and
--                                                was sent a recall; for a try, only if no client waits
--                                                whose: "fence info" of the holder, '' if foreign

-- All is read before anything is written, here and below: a user that may not read leaves no lock.
local call, holder, owned = redis.call, ARGV[1], (ARGV[6] or '') ~= ''
-- include: _now

-- The usual case, in the fewest steps: the lock is free, and no client waits.
if not owned and call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local last = call('GET', KEYS[2])
-- include: _next_fence
  call('SET', KEYS[2], fence .. ' ' .. holder .. ' ' .. ARGV[5], 'PX', ARGV[4])
  call('SET', KEYS[1], holder, 'PX', ARGV[3])
  return fence
end

local entry, waiter = ARGV[2] ~= '' and ARGV[2] .. ARGV[5] or '', owned and ARGV[6] or holder
local record, current = call('GET', KEYS[2]), redis.pcall('GET', KEYS[1])

-- A semaphore or reader/writer lock has another type of key, or none while its leases have ended and
-- clients wait in its line.
if type(current) ~= 'string' then
  local other = record and string.match(record, '<shares: kind> ')
  if current and string.find(current.err, 'WRONGTYPE')
    or other and not current and call('EXISTS', KEYS[3]) == 1 then
    if not other and call('TYPE', KEYS[1]).ok == 'hash' then other = call('HGET', KEYS[1], 'kind') end
    local what = other and (other == 'event' and 'an ' or 'a ') .. other or 'no lock'
    return redis.error_reply('WRONGTYPE the name holds ' .. what)
  end
  if current then return current end
end

-- From here on several commands may write. As a part of acquire_next.lua it has asked before.
-- include: _rights
local lacking = not ARGV[9] and lacks('PEXPIRE', 'PTTL', 'ZCARD', 'ZRANGE', 'ZRANK')
if lacking then return lacking end

-- include: _enqueue

-- A waiter that waited for others of its client has its place in line by its own arrival.
local arrival = ARGV[9] and string.format('%.0f', tonumber(now) - ARGV[9])

-- include: lock/_recall
-- include: lock/_whose

local function held()
  local position, foreign = entry ~= '' and enqueue(KEYS[3], entry, now, arrival) or -1, 1
  local by = whose(record, current)
  if by ~= '' then
    local tries, channel = string.match(entry, '<entry: waiter=(%?%S+) channel> ')
    foreign = recall_lease(record, current, channel or '-', tries or '-')
      and (entry ~= '' or call('EXISTS', KEYS[3]) == 0) and 2 or 0
  end
  return {tonumber(now), call('PTTL', KEYS[1]), position, foreign, by}
end

-- The other usual case: another client holds.
if type(current) == 'string' and current ~= holder then return held() end

if not ARGV[9] then
-- include: lock/_rights
  refused = lacks('EXISTS', 'ZPOPMIN', 'ZREM')
  if refused then return refused end
end

-- include: lock/_lock
-- include: lock/_prolong

local ttl = tonumber(ARGV[3])

local function take_lock()
  local fence = next_fence(record, now)
  write_record(1, fence, holder, ARGV[5], ttl)
  call('SET', KEYS[1], holder, 'PX', ttl)
  if owned then first_hold(1, waiter, ttl) end
  return fence
end

local function full_lease()
  prolong(KEYS[1], ttl)
  prolong(KEYS[2], RECORD_MS + ttl)
  if owned then prolong(KEYS[5], ttl) end
end

-- The holder asks again: a repeated request, or an explicit owner that enters again. It gets a full lease.
local function reenter()
  if owned then
    if entry ~= '' then call('ZREM', KEYS[3], entry) end
    call('SADD', KEYS[5], waiter)
  end
  full_lease()
  local fence = record and string.match(record, '^%d+')
  if not fence then
    fence = now
    write_record(1, fence, holder, ARGV[5], ttl)
  end
  return fence
end

if current == holder then return reenter() end
if not current then
  -- Free, and no client waits: the grant is the first write, which a server without memory refuses.
  if call('EXISTS', KEYS[3]) == 0 then return take_lock() end
  -- Those that came before go first. This client is granted when no waiter lives.
  if entry ~= '' then enqueue(KEYS[3], entry, now, arrival) end
  local in_line_ms, client_channel = string.match(ARGV[5], '<options: ttl client>')
  local next_waiter, fence = grant_next(1, waiter, client_channel)
  if not next_waiter then return take_lock() end
  if next_waiter == waiter then
    if in_line_ms ~= ARGV[3] then full_lease() end  -- until an instant: a handoff would be shorter
    return fence
  end
  record, current = call('GET', KEYS[2]), call('GET', KEYS[1])
end

return held()
