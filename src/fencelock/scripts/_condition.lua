-- Fragment: who waits on a condition of a lock. Included after _fence.lua, _line.lua and _grant.lua.
--
-- It guards I5 (who is notified gets the lock by its ordinary handoff, in order) and I7 (a
-- notification is not spent on the dead).
--
--   KEYS 1 to 6 are those of the lock, see _grant.lua
--   condition  zset  'name entry' of who waits, by arrival (us); an entry as in the lock's queue
--   notified   zset  'asked id': notifications that ran, by the last time at which they may be sent
--                    again (us); 'told name waiter': whom they went to, by time (us); each is
--                    remembered for 60 s after that
--
-- A waiter id of a condition begins with '~'. When the lock's line skips such a waiter as dead, it
-- leaves 'dead waiter' among the proofs of life: the next look passes its notification on.

local FORGET_US = 60000000  -- as in alive.lua

local call = redis.call
local now = tonumber(clock())

local function whole(number) return string.format('%.0f', number) end

local function after_the_last(key)
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if last[2] and tonumber(last[2]) >= now then return whole(tonumber(last[2]) + 1) end
  return whole(now)
end

-- Moves the first n who live to the end of the lock's line; returns how many there were. It reads a
-- hundred at a time: waking one of ten thousand must not cost ten thousand. Those who do not `listen`
-- may be just back, or dead: they stay where they are.
local function move(name, n, listen)
  local moved, others = 0, 0
  repeat
    local waiting = call('ZRANGE', KEYS[7], others, others + 99, 'WITHSCORES')
    for i = 1, #waiting, 2 do
      if moved == n then break end
      local of, entry, waiter, channel, home = string.match(waiting[i],
        '^(%S+) ((%S+) %S+ (%S+) %d+ %d+ %d (%S+) .*)$')
      if of ~= name then
        others = others + 1
      elseif not lives(1, now, home, tonumber(waiting[i + 1])) then
        call('ZREM', KEYS[7], waiting[i])
      elseif listen and not listens(channel) then
        others = others + 1
      else
        call('ZREM', KEYS[7], waiting[i])
        call('ZADD', KEYS[3], after_the_last(KEYS[3]), entry)
        call('PEXPIRE', KEYS[3], QUEUE_MS)
        call('ZADD', KEYS[8], whole(now), 'told ' .. name .. ' ' .. waiter)
        moved = moved + 1
      end
    end
  until #waiting == 0 or moved == n
  return moved
end

-- Keeps what is noted of notifications as long as the last of it is to be remembered.
local function keep_notified()
  local last = call('ZRANGE', KEYS[8], -1, -1, 'WITHSCORES')
  local ahead = last[2] and math.ceil((tonumber(last[2]) - now) / 1000) or 0
  call('PEXPIRE', KEYS[8], QUEUE_MS + math.max(0, ahead))
end

-- Notifies n who live: first those who listen, and if they are too few, those who may be back soon. A
-- waiter whose connection is being made anew loses neither its place nor the only notification.
local function notify(name, n)
  local moved = move(name, n, true)
  if moved ~= n then moved = moved + move(name, n - moved, false) end
  call('ZREMRANGEBYSCORE', KEYS[8], '-inf', whole(now - FORGET_US))
  keep_notified()
  return moved
end
