-- Fragment: a state that clients wait for (event, latch, barrier), and who hears of its change.
--
-- It guards I4 (a repeated request changes nothing), I6 (to check and to be told is one script) and
-- I10 (every key ends by itself).
--
--   state  hash  kind; gen: the present generation; ended: the last one that ended, at: when (us);
--                open: 1 while nobody need wait; and what the kind keeps
--   watch  zset  who is told: a channel is the last word of each member; by the last look (us)
--   ids    zset  requests that ran, by time (us)
--
-- Generations are instants of the server, so that they grow even when the key was lost meanwhile.
-- Whoever waits does so for the end of the generation that it found; it is told once, by one message
-- per channel, 'signal generation outcome key', and is on the list no more.

-- include: _channel

local WATCH_MS = 60000      -- prolonged by every look
local FORGET_US = 60000000  -- who did not look for so long, and requests as old, are dropped
local IDS_MAX = 10000

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

-- Tells whether a request ran before; notes it if not (I4).
local function repeated(key, id)
  call('ZREMRANGEBYSCORE', key, '-inf', whole(now - FORGET_US))
  if call('ZADD', key, 'NX', whole(now), id) == 0 then return true end
  if call('ZCARD', key) > IDS_MAX then call('ZPOPMIN', key) end
  call('PEXPIRE', key, WATCH_MS)
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
