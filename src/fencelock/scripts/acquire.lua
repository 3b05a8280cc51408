-- Takes the lock, or a place in line for it. Idempotent per waiter id (I4).
--
-- KEYS  lock record queue alive holds   (see _grant.lua)
-- ARGV  1 waiter   2 holder   3 ttl ms   4 claim ms   5 home
--       6 channel, or '' for an attempt that does not wait in line
--       7 owned: '1' when the holder is an explicit reentrant owner
--       8 info
-- Reply {1, fence, now us, holds}                     granted; holds is 1 but for explicit owners
--       {0, now us, pttl ms, position, foreign}       held; position 0 is the head, -1 is not in line,
--                                                     foreign 1: the holder is no fencelock client
-- include: _fence

local waiter, holder, ttl, channel, owned = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[6], ARGV[7] == '1'

-- Everything is read before anything is written: a user who may not read leaves no lock behind.
local now, record = server_us(), redis.call('GET', KEYS[2])

local function take()
  local fence = next_fence(record, now)
  write_record(1, fence, now, holder, ARGV[5], ARGV[8], ttl)
  if owned then first_hold(1, waiter, ttl) end
  return {1, fence, now, 1}
end

local free = redis.call('SET', KEYS[1], holder, 'NX', 'PX', ttl)
if free and redis.call('EXISTS', KEYS[3]) == 0 then return take() end

-- include: _grant

local function entry()
  return table.concat({waiter, holder, ARGV[5], channel, ARGV[3], ARGV[4], ARGV[7], ARGV[8]}, ' ')
end

-- Asked again by the holder: a repeated request, or an explicit owner's re-entry. R2: a full lease.
local function keep()
  local holds = 1
  prolong(KEYS[1], ttl)
  prolong(KEYS[2], RECORD_MS + ttl)
  if owned then
    redis.call('ZREM', KEYS[3], entry())
    redis.call('SADD', KEYS[5], waiter)
    prolong(KEYS[5], ttl)
    holds = redis.call('SCARD', KEYS[5])
  end
  local fence = record and tonumber(string.match(record, '^%d+'))
  if not fence then
    fence = now
    write_record(1, fence, now, holder, ARGV[5], ARGV[8], ttl)
  end
  return {1, fence, now, holds}
end

-- Arrival is the server's clock, and never before the last in line: first come, first served.
local function line_up()
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local arrival = now
  if last[2] and tonumber(last[2]) >= now then arrival = tonumber(last[2]) + 1 end
  local added = redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', arrival), entry())
  redis.call('PEXPIRE', KEYS[3], QUEUE_MS)
  if added == 1 then return redis.call('ZCARD', KEYS[3]) - 1 end
  return redis.call('ZRANK', KEYS[3], entry())
end

if free then
  -- Free, but others came before: they go first. Whoever is granted overwrites our mark.
  if channel ~= '' then line_up() end
  local next_waiter, fence = grant_next(1, waiter, ARGV[5])
  if not next_waiter then return take() end  -- nobody in line lives
  if next_waiter == waiter then return {1, fence, now, 1} end
  record = redis.call('GET', KEYS[2])
end

local current = redis.call('GET', KEYS[1])
if current == holder then return keep() end
local position = -1
if channel ~= '' then position = line_up() end
local foreign = (record and string.match(record, '^%d+ %d+ (%S+)')) ~= current and 1 or 0
return {0, now, redis.call('PTTL', KEYS[1]), position, foreign}
