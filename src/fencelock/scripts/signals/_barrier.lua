-- Fragment: the generations of a barrier. Included after _signal.lua.
--
-- It guards I4 (a repeated request gets the same outcome) and I7 (a dead party breaks the barrier in
-- bounded time).
--
--   state   hash  besides what _signal.lua says: parties; count: how many have arrived; next, free:
--                 which indices are left; broken: why, until a reset; acting: 'waiter channel' of the
--                 party that runs the action, acted: its last heartbeat; ends: which of the last
--                 generations broke, and why; heard: the last heartbeat of any party; since: see
--                 silence
--   watch   zset  'waiter channel' of the parties that wait, by their last heartbeat (us)
--   ids     zset  waiters and requests, by the time until which they are remembered (us)
--   places  hash  waiter -> 'generation index' of those waiters; and `past`, see _signal.lua
--
-- ARGV of each script begins with
--   1 parties   2 how long the barrier is kept unused, ms   3 server_timeout of the client, ms

-- constants: HEARTBEAT_US LIVENESS_TIMEOUT_US

local AWAY_US = 2 * HEARTBEAT_US   -- a party that missed two heartbeats and does not listen is dead
local GAP_US = 1.5 * HEARTBEAT_US  -- no heartbeat of any party for this long: the server was away
local ACTION_MS = 86400000         -- an action may take a day
local ENDS_BYTES = 4000

local REPEATS_US = repeats_us(ARGV[3])
-- A party repeats its request to a silent server for this long, after a heartbeat that may be 2 s old.
local ASKS_US = tonumber(ARGV[3]) * 1000 + AWAY_US

-- Returns a field of this barrier, or of the one of its name that was deleted.
local function lasting(name) return call('HGET', KEYS[field('gen') and 1 or 4], name) end

-- Returns the outcome of a generation: 'passed', the reason why it broke, or nil while it goes on.
local function outcome(gen)
  if tonumber(gen) > tonumber(lasting('ended') or 0) then return nil end
  return string.match(lasting('ends') or '', ' ' .. gen .. ':(%S+)') or 'passed'
end

local function finish(how)
  if how ~= 'passed' then
    local ends = (field('ends') or '') .. ' ' .. field('gen') .. ':' .. how
    call('HSET', KEYS[1], 'ends', string.sub(ends, -ENDS_BYTES))
  end
  end_generation(how)
  call('HSET', KEYS[1], 'count', 0, 'next', 0, 'free', '')
  call('HDEL', KEYS[1], 'acting')
end

local function break_up(why)
  call('HSET', KEYS[1], 'broken', why)
  finish(why)
end

-- Notes the heartbeat of a party. When none came for a while, the server may have been out of reach for
-- all parties: from then on each has the full time to send one.
local function note_heartbeat()
  if now - number('heard') > GAP_US then call('HSET', KEYS[1], 'since', text(now)) end
  call('HSET', KEYS[1], 'heard', text(now))
end

-- Returns true if a heartbeat is from before a time without any, and its party may still be asking.
local function is_in_doubt(heartbeat)
  local since = number('since')
  return heartbeat < since and since - heartbeat <= ASKS_US
end

-- Returns for how long a party could have sent a heartbeat, and did not.
local function silence(heartbeat)
  return now - (is_in_doubt(heartbeat) and number('since') or heartbeat)
end

local function has_place(member) return call('HGET', KEYS[4], string.match(member, '^%S+')) end

-- Returns true if a party may be dead, or connecting again: a party that arrives now must not take its
-- place.
local function any_in_doubt()
  local since = number('since')
  for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[2], text(since - ASKS_US), text(since - 1))) do
    if has_place(member) then return true end
  end
  return false
end

-- Returns true if a party that arrives now must wait: until this generation ends, or no party is in
-- doubt.
local function is_full() return field('acting') or any_in_doubt() end

-- Makes the parties that found the barrier full arrive again; the others ignore the message.
local function recall()
  local notified = {}
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    local channel = string.match(member, '(%S+)$')
    if not notified[channel] and not has_place(member) then
      notified[channel] = true
      publish(channel, 'signal ' .. field('gen') .. ' again ' .. KEYS[1])
    end
  end
end

-- Removes dead parties; one with a place in the present generation breaks it. A party that only waits for
-- its end has no place in it, and breaks nothing.
local function remove_dead()
  if not field('gen') then return end
  local acting = field('acting')
  if acting and silence(number('acted')) > AWAY_US and not listens(string.match(acting, '(%S+)$')) then
    return break_up('dead')
  end
  while true do
    local last = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not last[1] then return end
    local waiter, channel = string.match(last[1], '^(%S+) (%S+)$')
    local silent = silence(tonumber(last[2]))
    if silent <= AWAY_US or (silent <= LIVENESS_TIMEOUT_US and listens(channel)) then return end
    if call('HGET', KEYS[4], waiter) then return break_up('dead') end
    call('ZREM', KEYS[2], last[1])
  end
end

-- Remembers a waiter or request; returns false if it was known. Forgets those that cannot come again,
-- except for parties that still wait.
local function remember_id(id)
  if call('ZSCORE', KEYS[3], id) then return false end
  call('ZADD', KEYS[3], text(now + REPEATS_US), id)
  for _ = 1, 3 do
    local old = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    if tonumber(old[2]) > now then break end
    local place = call('HGET', KEYS[4], old[1])
    if place and not outcome(string.match(place, '^%S+')) then
      call('ZADD', KEYS[3], text(now + REPEATS_US), old[1])
    else
      call('ZREM', KEYS[3], old[1])
      call('HDEL', KEYS[4], old[1])
    end
  end
  return true
end

-- Keeps the keys. While an action runs, no key ends by itself: no other party need be there.
local function keep_keys()
  local least = field('acting') and ACTION_MS or 0
  local last = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local repeats_ms = last[2] and math.ceil((tonumber(last[2]) - now) / 1000) or 0
  call('PEXPIRE', KEYS[1], math.max(tonumber(ARGV[2]), least))
  call('PEXPIRE', KEYS[2], math.max(WAITERS_MS, least))
  for i = 3, 4 do call('PEXPIRE', KEYS[i], math.max(WAITERS_MS, least, repeats_ms)) end
end

-- Returns the reply to a party: {word, generation, index or reason}.
local function reply_to(waiter)
  local gen, index = string.match(call('HGET', KEYS[4], waiter) or '', '^(%S+) (%S+)$')
  if not gen then return {'broken', '0', 'lost'} end
  local how = outcome(gen)
  if how == 'passed' then return {'passed', gen, index} end
  if how then return {'broken', gen, how} end
  if gen ~= field('gen') then return {'broken', gen, 'lost'} end
  local acts = string.match(field('acting') or '', '^%S+') == waiter
  return {acts and 'act' or 'wait', gen, index}
end

-- Returns an error if the barrier has another number of parties and one has arrived. While it is idle, a
-- party that `uses` it gives it this number.
local function wrong_parties(uses)
  local has = field('parties')
  if not has or has == ARGV[1] then return nil end
  if number('count') > 0 then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a barrier of ' .. has
      .. ' parties, not of ' .. ARGV[1] .. ', and some have come')
  end
  if uses then call('HSET', KEYS[1], 'parties', ARGV[1]) end
end

local function begin()
  if field('gen') then return end
  call('DEL', KEYS[2])  -- an earlier barrier of this name may have left it
  if not call('HGET', KEYS[4], 'ended') then call('DEL', KEYS[4]) end
  begin_state('barrier')
  call('HSET', KEYS[1], 'parties', ARGV[1], 'count', 0, 'next', 0, 'free', '', 'heard', text(now))
end

lacking = lacks('HDEL', 'ZRANGEBYSCORE')
if lacking then return lacking end
