-- Keeps leases: one call for many, each only for its own holder (I11).
--
-- KEYS  per lease: lock record holds revoked
-- ARGV  per lease: holder, ttl ms, owned
-- Reply per lease: '1' renewed; '0 expired', '0 taken' or '0 revoked REASON' otherwise

local RECORD_MS = 600000  -- as in _fence.lua

-- An explicit owner's holds share the keys: one hold's shorter lease must not end another's.
local function prolong(k, ttl)
  if redis.call('PTTL', KEYS[k]) < ttl then
    redis.call('PEXPIRE', KEYS[k], ttl)
    redis.call('PEXPIRE', KEYS[k + 1], RECORD_MS + ttl)
    redis.call('PEXPIRE', KEYS[k + 2], ttl)
  end
  return '1'
end

local function renew(k, holder, ttl, owned)
  local current = redis.call('GET', KEYS[k])
  if current ~= holder then
    local revoked, reason = string.match(redis.call('GET', KEYS[k + 3]) or '', '^(%S+) (.*)$')
    if revoked == holder then return '0 revoked ' .. reason end
    return current and '0 taken' or '0 expired'
  end
  if owned == '1' then return prolong(k, ttl) end
  redis.call('PEXPIRE', KEYS[k], ttl)
  redis.call('PEXPIRE', KEYS[k + 1], RECORD_MS + ttl)
  return '1'
end

local replies = {}
for i = 1, #KEYS / 4 do
  replies[i] = renew(i * 4 - 3, ARGV[i * 3 - 2], tonumber(ARGV[i * 3 - 1]), ARGV[i * 3])
end
return replies
