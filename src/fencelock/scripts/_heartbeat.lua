-- Fragment: the heartbeat of a client that waits. Included after _line.lua.

-- constants: FORGET_US

-- Keeps the heartbeat of a client (`client_channel`), keeps the line, and removes old heartbeats.
local function heartbeat(base, now, client_channel)
  remember(base, now, client_channel)
  call('ZREMRANGEBYSCORE', KEYS[base + 3], '-inf', text(now - FORGET_US))
  call('PEXPIRE', KEYS[base + 2], WAITERS_MS)
end
