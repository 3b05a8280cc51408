-- Fragment: the waiters on the conditions of a lock. Included by each condition_*.lua.
--
-- It guards I5 (a waiter that is notified gets the lock by its ordinary handoff, in order) and I7 (a
-- dead waiter's notification goes to another).
--
--   KEYS 1 to 6 are those of the lock, see _lock.lua
--   condition  zset  'name entry' of each waiter, by arrival (us); an entry as in the lock's queue
--   notified   zset  'asked id': notifications that ran, by the last time at which they may be sent
--                    again (us); 'told name waiter': the waiters that they went to, by time (us); each
--                    is remembered for 60 s after that
--
-- The id of a waiter that waited on a condition begins with '~'. When the lock's line skips it as dead,
-- 'dead waiter' is remembered among the heartbeats: the next condition_look passes its notification on.

-- include: lock/_lock
-- include: _listens
-- include: _enqueue

-- constants: FORGET_US

local now = tonumber(clock())

-- Moves the first n live waiters to the end of the lock's line; returns how many there were. It reads a
-- hundred at a time: to notify one of ten thousand must not cost ten thousand. With `listen`, waiters
-- that do not listen stay where they are: they may be connecting again, or dead.
local function move(name, n, listen)
  local moved, others = 0, 0
  repeat
    local waiting = call('ZRANGE', KEYS[7], others, others + 99, 'WITHSCORES')
    for i = 1, #waiting, 2 do
      if moved == n then break end
      local of, entry, waiter, channel, client_channel = string.match(waiting[i],
        '^(%S+) ((%S+) %S+ (%S+) %d+ %d+ %d (%S+) .*)$')
      if of ~= name then
        others = others + 1
      elseif not lives(1, now, client_channel, tonumber(waiting[i + 1])) then
        call('ZREM', KEYS[7], waiting[i])
      elseif listen and not listens(channel) then
        others = others + 1
      else
        call('ZREM', KEYS[7], waiting[i])
        enqueue(KEYS[3], entry, text(now))
        call('ZADD', KEYS[8], text(now), 'told ' .. name .. ' ' .. waiter)
        moved = moved + 1
      end
    end
  until #waiting == 0 or moved == n
  return moved
end

-- Keeps the notifications as long as the last of them must be remembered.
local function keep_notified()
  local last = call('ZRANGE', KEYS[8], -1, -1, 'WITHSCORES')
  local ahead = last[2] and math.ceil((tonumber(last[2]) - now) / 1000) or 0
  call('PEXPIRE', KEYS[8], WAITERS_MS + math.max(0, ahead))
end

-- Notifies n live waiters: first those that listen, and if they are too few, those that may be back soon.
-- A waiter that is connecting again loses neither its place nor the only notification.
local function notify(name, n)
  local moved = move(name, n, true)
  if moved ~= n then moved = moved + move(name, n - moved, false) end
  call('ZREMRANGEBYSCORE', KEYS[8], '-inf', text(now - FORGET_US))
  keep_notified()
  return moved
end
