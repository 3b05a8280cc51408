-- Fragment: the heartbeat of a client that waits. Included after _line.lua.

-- constants: FORGET_US

-- Keeps the heartbeat of a client (`home`), keeps the line, and removes old heartbeats.
local function heartbeat(base, now, home)
  remember(base, now, home)
  call('ZREMRANGEBYSCORE', KEYS[base + 3], '-inf', text(now - FORGET_US))
  call('PEXPIRE', KEYS[base + 2], WAITERS_MS)
end
