-- Fragment: which waiters live, and how one is notified of its grant. Included by each script that can
-- grant, after _fence.lua.
--
-- It guards I7 (dead waiters are skipped), and a part of I1: a server passes messages on, to its
-- replicas, one of which may be the master that it has replaced, and to other nodes of a Cluster. A waiter
-- that stayed there would hear a grant that the next one gets, for want of a listener here. So a grant is
-- published only when a client listens at this node, and a client listens at the node of its lock.
-- `base` is the index of the first key of a name, see _lock.lua.

-- include: _channel

-- constants: WAITERS_MS LIVENESS_TIMEOUT_US

-- Notifies a waiter of its grant; returns false if it did not hear. Fence, time and lease are texts.
local function send_grant(channel, waiter, fence, now, lease_ms)
  if listeners(channel) == 0 then return false end
  return publish(channel, 'granted ' .. waiter .. ' ' .. fence .. ' ' .. now .. ' ' .. lease_ms)
end

-- Returns true if a waiter is not to be taken for dead: it came a moment ago, or its client sent a
-- heartbeat.
local function lives(base, now, client_channel, arrived)
  if now - arrived <= LIVENESS_TIMEOUT_US then return true end
  return now - tonumber(call('ZSCORE', KEYS[base + 3], client_channel) or 0) <= LIVENESS_TIMEOUT_US
end

-- Keeps the heartbeat of a client, or remembers an id for 60 s; returns 0 if it was there before.
local function remember(base, now, member)
  local added = call('ZADD', KEYS[base + 3], now, member)
  call('PEXPIRE', KEYS[base + 3], WAITERS_MS)
  return added
end
