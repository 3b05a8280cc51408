-- Fragment: the generations of a barrier. Included after _signal.lua.
--
-- It guards I4 (a party that asks again learns what became of it) and I7 (a dead party breaks the
-- barrier in bounded time).
--
--   state   hash  besides what _signal.lua says: parties; count: how many have arrived; next, free:
--                 which indices are left; broken: why, until a reset; acting: 'waiter channel' of the
--                 party that runs the action, acted: its last proof of life; ends: which of the last
--                 generations broke, and why; heard: when any party was heard of; since: see silence
--   watch   zset  'waiter channel' of the parties that wait, by their last proof of life (us)
--   ids     zset  waiters and requests, by the time until which they are remembered (us)
--   places  hash  waiter -> 'generation index' of those waiters
--
-- ARGV of each script begins with
--   1 parties   2 how long the barrier is kept unused, ms   3 server_timeout of the client, ms

local AWAY_US = 4000000      -- two proofs of life did not come, and nobody listens: dead
local PATIENCE_US = 7000000  -- three did not come: taken for dead
local GAP_US = 3000000       -- a party proves that it lives every 2 s; for so long none was heard of
local ACTION_MS = 86400000   -- an action may take a day
local ENDS_BYTES = 4000

local REPEATS_US = repeats_us(ARGV[3])
-- A party asks a silent server for so long, after a proof that may be two seconds old.
local ASKS_US = tonumber(ARGV[3]) * 1000 + AWAY_US

-- What became of a generation: 'passed', the reason why it broke, or nil while it goes on.
local function outcome(gen)
  if tonumber(gen) > number('ended') then return nil end
  return string.match(field('ends') or '', ' ' .. gen .. ':(%S+)') or 'passed'
end

local function finish(how)
  if how ~= 'passed' then
    local ends = (field('ends') or '') .. ' ' .. field('gen') .. ':' .. how
    call('HSET', KEYS[1], 'ends', string.sub(ends, -ENDS_BYTES))
  end
  tell(how)
  call('HSET', KEYS[1], 'count', 0, 'next', 0, 'free', '')
  call('HDEL', KEYS[1], 'acting')
end

local function break_up(why)
  call('HSET', KEYS[1], 'broken', why)
  finish(why)
end

-- Notes that a party was heard of. When none was for a while, the server may have been out of reach
-- for all of them: from then on each has as long as ever to prove that it lives.
local function hear()
  if now - number('heard') > GAP_US then call('HSET', KEYS[1], 'since', whole(now)) end
  call('HSET', KEYS[1], 'heard', whole(now))
end

-- Whether a proof is older than a time in which no party was heard of, and its party may still ask.
local function doubtful(proved)
  local since = number('since')
  return proved < since and since - proved <= ASKS_US
end

-- How long a party could have proved that it lives, and did not.
local function silence(proved)
  return now - (doubtful(proved) and number('since') or proved)
end

local function has_place(member) return call('HGET', KEYS[4], string.match(member, '^%S+')) end

-- Whether a party may be dead or just back: a party that comes now must not pass beside it.
local function in_doubt()
  local since = number('since')
  for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[2], whole(since - ASKS_US), whole(since - 1))) do
    if has_place(member) then return true end
  end
  return false
end

-- Whether a party that comes now must wait for the end of this generation, or of the doubt.
local function shut() return field('acting') or in_doubt() end

-- Has those come again that found it shut; the others do not mind.
local function recall()
  local told = {}
  for _, member in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
    local channel = string.match(member, '(%S+)$')
    if not told[channel] and not has_place(member) then
      told[channel] = true
      publish(channel, 'signal ' .. field('gen') .. ' again ' .. KEYS[1])
    end
  end
end

-- Who only waits for the present generation to end has no place in it, and breaks nothing.
local function bury()
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
    if silent <= AWAY_US or (silent <= PATIENCE_US and listens(channel)) then return end
    if call('HGET', KEYS[4], waiter) then return break_up('dead') end
    call('ZREM', KEYS[2], last[1])
  end
end

-- Notes a waiter or request; false when it was known. Removes those that cannot come again, except
-- for parties that still wait.
local function note(id)
  if call('ZSCORE', KEYS[3], id) then return false end
  call('ZADD', KEYS[3], whole(now + REPEATS_US), id)
  for _ = 1, 3 do
    local old = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    if tonumber(old[2]) > now then break end
    local place = call('HGET', KEYS[4], old[1])
    if place and not outcome(string.match(place, '^%S+')) then
      call('ZADD', KEYS[3], whole(now + REPEATS_US), old[1])
    else
      call('ZREM', KEYS[3], old[1])
      call('HDEL', KEYS[4], old[1])
    end
  end
  return true
end

-- While an action runs, nothing ends by itself: nobody else need be there to look.
local function keep()
  local least = field('acting') and ACTION_MS or 0
  local last = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local repeats_ms = last[2] and math.ceil((tonumber(last[2]) - now) / 1000) or 0
  call('PEXPIRE', KEYS[1], math.max(tonumber(ARGV[2]), least))
  call('PEXPIRE', KEYS[2], math.max(WATCH_MS, least))
  for i = 3, 4 do call('PEXPIRE', KEYS[i], math.max(WATCH_MS, least, repeats_ms)) end
end

-- What a party is told of its place: {word, generation, index or reason}.
local function told(waiter)
  local gen, index = string.match(call('HGET', KEYS[4], waiter) or '', '^(%S+) (%S+)$')
  if not gen then return {'broken', '0', 'lost'} end
  local how = outcome(gen)
  if how == 'passed' then return {'passed', gen, index} end
  if how then return {'broken', gen, how} end
  if gen ~= field('gen') then return {'broken', gen, 'lost'} end
  local acts = string.match(field('acting') or '', '^%S+') == waiter
  return {acts and 'act' or 'wait', gen, index}
end

-- An error when the barrier has another number of parties and one has come; while it is idle, a
-- party that `uses` it gives it this number.
local function unfit(uses)
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
  call('DEL', KEYS[2], KEYS[4])  -- what an earlier one left that was forgotten
  call('HSET', KEYS[1], 'kind', 'barrier', 'gen', whole(now), 'open', 0, 'parties', ARGV[1],
    'count', 0, 'next', 0, 'free', '', 'heard', whole(now))
end
