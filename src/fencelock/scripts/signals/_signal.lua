-- Fragment: a state that clients wait for (event, latch, barrier), and the clients that are notified of
-- its change.
--
-- It guards I4 (a repeated request changes nothing), I6 (one script checks the state and adds the client
-- to the list) and I10 (each key ends by itself).
--
--   state  hash  kind; gen: the present generation; ended: the last one that ended, at: when (us);
--                open: 1 while no client need wait; and what the kind keeps
--   watch  zset  the waiters: the last word of each member is a channel; by the last heartbeat (us)
--   ids    zset  requests that ran, by the time until which they are remembered (us)
--   past   hash  ended, at and ends of a state that was deleted, for a while; a barrier keeps its places
--                there, too
--
-- Generations are instants of the server, so that they grow even when the key was lost meanwhile.
-- A client waits for the end of the generation that it found. It is notified once, by one message per
-- channel, 'signal generation outcome key', and is then removed from the list.

-- include: _channel
-- include: _listens

-- include: _text
-- include: _kinds

-- constants: WAITERS_MS FORGET_US

local NETWORK_MS = 60000  -- the longest that a request may be on its way, or lie at a frozen server

local call = redis.call
-- include: _now
now = tonumber(now)

KINDS.zset = 'a semaphore or reader/writer lock'

-- Returns an error reply if the name is of another kind, else nil.
local function wrong_kind(kind)
  local held = call('TYPE', KEYS[1]).ok
  if held == 'none' then return nil end
  local found = held == 'hash' and call('HGET', KEYS[1], 'kind')
  if found == kind then return nil end
  local refusal = other_layout(found)
  if refusal then return refusal end
  local what = KINDS[found or held] or found or 'something of another program'
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds ' .. what .. ', not ' .. KINDS[kind])
end

-- include: signals/_fields

-- The next generation: after the last one, and never before the clock.
local function next_gen()
  return text(math.max(number('gen') + 1, number('ended') + 1, now))
end

-- Returns for how long a request that came now is remembered (us): a client repeats it for its
-- server_timeout, and the last copy may be on its way for as long again and a while.
local function repeats_us(timeout_ms) return (2 * tonumber(timeout_ms) + NETWORK_MS) * 1000 end

-- Keeps the requests as long as the last of them may be repeated.
local function keep_ids(key)
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if last[2] then
    call('PEXPIRE', key, math.max(WAITERS_MS, math.ceil((tonumber(last[2]) - now) / 1000)))
  end
end

-- Remembers a request; returns true if it ran before (I4). `answered`: earlier requests of this client
-- that were answered at the first try, so that no copy of them can come.
local function repeated(key, id, timeout_ms, answered)
  if call('ZSCORE', key, id) then return true end
  for _, each in ipairs(answered) do call('ZREM', key, each) end
  call('ZREMRANGEBYSCORE', key, '-inf', text(now))
  call('ZADD', key, text(now + repeats_us(timeout_ms)), id)
  keep_ids(key)
  return false
end

-- Begins a state. It knows what ended before it was deleted: a waiter may not have heard that.
local function begin_state(kind)
  for _, name in ipairs({'ended', 'at', 'ends'}) do
    local kept = call('HGET', KEYS[4], name)
    if kept then call('HSET', KEYS[1], name, kept) end
  end
  call('HSET', KEYS[1], 'kind', kind, 'gen', next_gen(), 'open', 0)
end

-- Deletes a state. A message may be lost (I6): a waiter whose generation ended before asks for it later.
local function delete_state()
  for _, name in ipairs({'ended', 'at', 'ends'}) do
    local kept = field(name)
    if kept then call('HSET', KEYS[4], name, kept) end
  end
  call('PEXPIRE', KEYS[4], NETWORK_MS)
  call('DEL', KEYS[1])
end

-- Returns true if a live client waits: the last word of each member is its channel.
local function awaited()
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    if listens(string.match(member, '(%S+)$')) then return true end
  end
  return false
end

-- Ends the present generation: one message for each channel, however many clients share it.
local function end_generation(outcome)
  local gen, notified = field('gen'), {}
  call('HSET', KEYS[1], 'ended', gen, 'at', text(now), 'gen', next_gen())
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    local channel = string.match(member, '(%S+)$')
    if not notified[channel] then
      notified[channel] = true
      publish(channel, 'signal ' .. gen .. ' ' .. outcome .. ' ' .. KEYS[1])
    end
  end
  call('DEL', KEYS[2])
end

-- Before anything is written, by any of these scripts.
-- include: _rights
local lacking = lacks('DEL', 'HGET', 'HSET', 'PEXPIRE', 'ZADD', 'ZRANGE', 'ZREM', 'ZREMRANGEBYSCORE', 'ZSCORE')
if lacking then return lacking end
