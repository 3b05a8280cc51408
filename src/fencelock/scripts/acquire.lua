-- Takes the lock, or a place in line for it. Idempotent per waiter id (I4).
--
-- KEYS  lock record queue alive holds   (see _grant.lua)
-- ARGV  1 holder   2 channel, or '' for an attempt that does not wait in line
--       3 ttl ms   4 how long the record is kept, ms   5 terms
--       6 waiter, of an explicit reentrant owner only: else the holder id names the request, too
-- Reply fence                                    granted
--       {now us, pttl ms, position, foreign}     held; position 0 is the head, -1 is not in line,
--                                                foreign 1: the holder is no fencelock client

-- Everything is read before anything is written, here and below: who may not read leaves no lock.
local call, holder = redis.call, ARGV[1]

-- The usual case, in as few steps as there can be: nobody holds, nobody waits.
if not ARGV[6] and call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local last, t = call('GET', KEYS[2]), call('TIME')
  local micros = t[2]
  if #micros < 6 then micros = string.sub('00000' .. micros, -6) end
  local fence = t[1] .. micros
  -- Of as many digits (16, till the year 2286) texts compare as their numbers do, and faster.
  if last and not (last < fence and string.byte(last, 17) == 32 and #fence == 16) then
    local previous = tonumber(string.match(last, '^%d+'))
    if previous >= tonumber(fence) then fence = string.format('%.0f', previous + 1) end
  end
  call('SET', KEYS[2], fence .. ' ' .. holder .. ' ' .. ARGV[5], 'PX', ARGV[4])
  call('SET', KEYS[1], holder, 'PX', ARGV[3])
  return fence
end

-- include: _fence
-- include: _line
-- include: _grant

local channel, ttl, waiter = ARGV[2], tonumber(ARGV[3]), ARGV[6] or holder
local owned, home = ARGV[6] ~= nil, string.match(ARGV[5], '^%d+ %d+ %d (%S+)')

local now, record, current = server_us(), call('GET', KEYS[2]), redis.pcall('GET', KEYS[1])

-- A semaphore or reader/writer lock has another type of key, or none while its leases have ended and
-- waiters stand in line.
local other = record and string.match(record, '^%d+ =(%l+) ')
if type(current) == 'table' and string.find(current.err, 'WRONGTYPE')
  or other and not current and call('EXISTS', KEYS[3]) == 1 then
  if not other and call('TYPE', KEYS[1]).ok == 'hash' then other = call('HGET', KEYS[1], 'kind') end
  return redis.error_reply('WRONGTYPE the name holds ' .. (other and 'a ' .. other or 'no lock'))
end
if type(current) == 'table' then return current end

local function granted(fence) return string.format('%.0f', fence) end

local function take()
  local fence = next_fence(record, now)
  write_record(1, fence, holder, ARGV[5], ttl)
  call('SET', KEYS[1], holder, 'PX', ttl)
  if owned then first_hold(1, waiter, ttl) end
  return granted(fence)
end

local function entry()
  return table.concat({waiter, holder, channel, ARGV[5]}, ' ')
end

-- Asked again by the holder: a repeated request, or an explicit owner's re-entry. R2: a full lease.
local function keep()
  prolong(KEYS[1], ttl)
  prolong(KEYS[2], RECORD_MS + ttl)
  if owned then
    call('ZREM', KEYS[3], entry())
    call('SADD', KEYS[5], waiter)
    prolong(KEYS[5], ttl)
  end
  local fence = record and tonumber(string.match(record, '^%d+'))
  if not fence then
    fence = now
    write_record(1, fence, holder, ARGV[5], ttl)
  end
  return granted(fence)
end

-- Arrival is the server's clock, and never before the last in line: first come, first served.
local function line_up()
  local last = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local arrival = now
  if last[2] and tonumber(last[2]) >= now then arrival = tonumber(last[2]) + 1 end
  local added = call('ZADD', KEYS[3], 'NX', string.format('%.0f', arrival), entry())
  call('PEXPIRE', KEYS[3], QUEUE_MS)
  if added == 1 then return call('ZCARD', KEYS[3]) - 1 end
  return call('ZRANK', KEYS[3], entry())
end

if current == holder then return keep() end
if not current then
  -- Free: who came before goes first, and this one if nobody in line lives.
  if channel ~= '' and call('EXISTS', KEYS[3]) == 1 then line_up() end
  local next_waiter, fence = grant_next(1, waiter, home)
  if not next_waiter then return take() end
  if next_waiter == waiter then return granted(fence) end
  record, current = call('GET', KEYS[2]), call('GET', KEYS[1])
end

local position = -1
if channel ~= '' then position = line_up() end
local foreign = (record and string.match(record, '^%d+ (%S+)')) ~= current and 1 or 0
return {now, call('PTTL', KEYS[1]), position, foreign}
