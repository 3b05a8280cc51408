-- Fragment: a state that clients wait for (event, latch, barrier), and who hears of its change.
--
-- It guards I4 (a repeated request changes nothing), I6 (to check and to be told is one script) and
-- I10 (every key ends by itself).
--
--   state  hash  kind; gen: the present generation; ended: the last one that ended, at: when (us);
--                open: 1 while nobody need wait; and what the kind keeps
--   watch  zset  who is told: a channel is the last word of each member; by the last look (us)
--   ids    zset  requests that ran, by the time until which they are remembered (us)
--
-- Generations are instants of the server, so that they grow even when the key was lost meanwhile.
-- Whoever waits does so for the end of the generation that it found; it is told once, by one message
-- per channel, 'signal generation outcome key', and is on the list no more.

-- include: _channel

local WATCH_MS = 60000      -- prolonged by every look
local FORGET_US = 60000000  -- channels whose client did not look for so long are dropped
local NETWORK_MS = 60000    -- the longest that a request may be on its way, or lie at a frozen server

local call = redis.call
local t = call('TIME')
local now = t[1] * 1000000 + t[2]

local HOLDERS = {string = 'a lock', zset = 'a semaphore or reader/writer lock',
  event = 'an event', latch = 'a latch', barrier = 'a barrier'}

local function whole(number) return string.format('%.0f', number) end

-- What the name holds, when it is not of this kind: an error reply, to be returned.
local function refused(kind)
  local held = call('TYPE', KEYS[1]).ok
  if held == 'none' then return nil end
  local found = held == 'hash' and call('HGET', KEYS[1], 'kind')
  if found == kind then return nil end
  local what = HOLDERS[found or held] or found or 'something of another program'
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds ' .. what .. ', not ' .. HOLDERS[kind])
end

local function field(name) return call('HGET', KEYS[1], name) end

local function number(name) return tonumber(field(name) or 0) end

-- The next generation: after the last one, and never before the clock.
local function next_gen()
  return whole(math.max(number('gen') + 1, number('ended') + 1, now))
end

-- For how long a request is remembered that came now (us): a client repeats it for `patience_ms`, its
-- server_timeout, and what it sent last may still be on its way for as long again and a while.
local function repeats_us(patience_ms) return (2 * tonumber(patience_ms) + NETWORK_MS) * 1000 end

-- Keeps the requests as long as the last of them may come again.
local function keep_ids(key)
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if last[2] then
    call('PEXPIRE', key, math.max(WATCH_MS, math.ceil((tonumber(last[2]) - now) / 1000)))
  end
end

-- Notes a request, and returns whether it ran before (I4). `answered`: earlier requests of this client
-- that were answered at the first try, so that no copy of them can come.
local function repeated(key, id, patience_ms, answered)
  if call('ZSCORE', key, id) then return true end
  for _, each in ipairs(answered) do call('ZREM', key, each) end
  call('ZREMRANGEBYSCORE', key, '-inf', whole(now))
  call('ZADD', key, whole(now + repeats_us(patience_ms)), id)
  keep_ids(key)
  return false
end

-- Whether a client waits that lives: its channel is the last word of each member.
local function awaited()
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    if listens(string.match(member, '(%S+)$')) then return true end
  end
  return false
end

-- Ends the present generation: one message for each channel, however many wait behind it.
local function tell(outcome)
  local gen, told = field('gen'), {}
  call('HSET', KEYS[1], 'ended', gen, 'at', whole(now), 'gen', next_gen())
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    local channel = string.match(member, '(%S+)$')
    if not told[channel] then
      told[channel] = true
      publish(channel, 'signal ' .. gen .. ' ' .. outcome .. ' ' .. KEYS[1])
    end
  end
  call('DEL', KEYS[2])
end
