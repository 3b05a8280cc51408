-- Acquires several locks, all or none, when all are free and no client waits for any of them. It waits
-- in no line. Idempotent per holder ids (I4).
--
-- KEYS  per lock: lock record queue alive holds   (see _lock.lua)
-- ARGV  per lock: holder, ttl ms, options
-- Reply {fence per lock}     all are granted
--       {n, now us, whose}   the n-th lock is held; whose: "fence info" of the holder, '' if foreign
--       {-n}                 the n-th lock is free, but other clients are in line for it; or a
--                            client may keep it while it is idle, and was sent a recall
-- include: _fence
-- include: lock/_record
-- include: lock/_prolong
-- include: lock/_recall
-- include: lock/_whose

local records, taken = {}, {}
for i = 1, #KEYS / 5 do
  local base, holder = (i - 1) * 5 + 1, ARGV[(i - 1) * 3 + 1]
  local current = redis.pcall('GET', KEYS[base])
  if type(current) == 'table' then
    return redis.error_reply(current.err .. ': ' .. KEYS[base])  -- which of them
  end
  local record = call('GET', KEYS[base + 1])
  if current and current ~= holder then
    if recall_lease(record, current, '-', '-') then return {-i} end
    return {i, tonumber(clock()), whose(record, current)}
  end
  if not current and call('EXISTS', KEYS[base + 2]) == 1 then return {-i} end
  records[i], taken[i] = record, current
end

-- A repeated request prolongs what is there, and another lock may be free again.
-- include: _rights
local refused = next(taken) and lacks('PEXPIRE', 'PTTL', 'SET')
if refused then return refused end

local now, fences = clock(), {}
for i = 1, #KEYS / 5 do
  local base, holder, ttl = (i - 1) * 5 + 1, ARGV[(i - 1) * 3 + 1], tonumber(ARGV[(i - 1) * 3 + 2])
  local fence
  if taken[i] and records[i] then  -- a repeated request
    fence = string.match(records[i], '^%d+')
    prolong(KEYS[base], ttl)
    prolong(KEYS[base + 1], RECORD_MS + ttl)
  else
    fence = next_fence(records[i], now)
    write_record(base, fence, holder, ARGV[(i - 1) * 3 + 3], ttl)
    call('SET', KEYS[base], holder, 'PX', ttl)
  end
  fences[i] = fence
end
return fences
