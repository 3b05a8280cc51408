-- Fragment: a repeated request gets a full lease. Included by each script that answers one.

-- Prolongs a key, and never shortens it: the holds of an explicit owner share the lock's keys.
local function prolong(key, lease_ms)
  if call('PTTL', key) < lease_ms then call('PEXPIRE', key, lease_ms) end
end
