-- Fragment: the generations of a barrier. Included after _signal.lua.
--
-- It guards I4 (a party that asks again learns what became of it) and I7 (a dead party breaks the
-- barrier in bounded time).
--
--   state   hash  besides what _signal.lua says: parties; count: how many have arrived; next, free:
--                 which indices are left; broken: why, until a reset; acting: 'waiter channel' of the
--                 party that runs the action; ends: which of the last generations broke, and why
--   watch   zset  'waiter channel' of the parties that wait, by their last proof of life (us)
--   ids     zset  waiters and requests of the last minute, by time (us)
--   places  hash  waiter -> 'generation index' of those waiters

local AWAY_US = 4000000      -- two proofs of life did not come, and nobody listens: dead
local PATIENCE_US = 7000000  -- three did not come: taken for dead
local ENDS_BYTES = 4000

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

-- A dead process has no subscription left. A user who may not publish cannot tell.
local function listens(channel)
  local heard = publish(channel, 'ping')
  return type(heard) == 'table' or heard > 0
end

-- Who only waits for the present generation to end has no place in it, and breaks nothing.
local function bury()
  if not field('gen') then return end
  local acting = field('acting')
  if acting and not listens(string.match(acting, '(%S+)$')) then return break_up('dead') end
  while true do
    local last = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not last[1] then return end
    local waiter, channel = string.match(last[1], '^(%S+) (%S+)$')
    local silent = now - tonumber(last[2])
    if silent <= AWAY_US or (silent <= PATIENCE_US and listens(channel)) then return end
    if call('HGET', KEYS[4], waiter) then return break_up('dead') end
    call('ZREM', KEYS[2], last[1])
  end
end

-- Notes a waiter or request; false when it was known. What is a minute old goes, but for those who
-- still wait.
local function note(id)
  if call('ZADD', KEYS[3], 'NX', whole(now), id) == 0 then return false end
  for _ = 1, 3 do
    local old = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    if tonumber(old[2]) > now - FORGET_US and call('ZCARD', KEYS[3]) <= IDS_MAX then break end
    local place = call('HGET', KEYS[4], old[1])
    if place and not outcome(string.match(place, '^%S+')) then
      call('ZADD', KEYS[3], whole(now), old[1])
    else
      call('ZREM', KEYS[3], old[1])
      call('HDEL', KEYS[4], old[1])
    end
  end
  return true
end

local function keep(ttl)
  call('PEXPIRE', KEYS[1], ttl)
  for i = 2, 4 do call('PEXPIRE', KEYS[i], WATCH_MS) end
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

local function unfit(parties)
  local trouble = refused('barrier')
  if trouble then return trouble end
  local has = field('parties')
  if has and has ~= parties then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a barrier of ' .. has
      .. ' parties, not of ' .. parties)
  end
end

local function begin(parties)
  if field('gen') then return end
  call('DEL', KEYS[2], KEYS[4])  -- what an earlier one left that was forgotten
  call('HSET', KEYS[1], 'kind', 'barrier', 'gen', whole(now), 'open', 0, 'parties', parties,
    'count', 0, 'next', 0, 'free', '')
end
