-- Fragment: who stands in line and lives. Included by every script that can grant.
--
-- It guards I7 (dead waiters are skipped). `base` is the index of a name's first key, see _grant.lua.

local QUEUE_MS = 60000       -- prolonged by every arrival and every proof of life
local PATIENCE_US = 7000000  -- three proofs of life that did not come: taken for dead

-- include: _channel

-- Fence, time and lease are texts. A dead process has no subscription left: then PUBLISH reaches nobody. A user who may not publish
-- cannot tell, and takes the waiter for alive.
local function told(channel, waiter, fence, now, lease_ms)
  local heard = publish(channel,
    'granted ' .. waiter .. ' ' .. fence .. ' ' .. now .. ' ' .. lease_ms)
  return type(heard) == 'table' or heard > 0
end

local function lives(base, now, home, arrived)
  if now - arrived <= PATIENCE_US then return true end
  local proved = tonumber(redis.call('ZSCORE', KEYS[base + 3], home) or 0)
  return now - proved <= PATIENCE_US
end
