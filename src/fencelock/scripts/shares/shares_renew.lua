-- Renews leases of permits: one call for many, each only for its own holder (I11).
--
-- KEYS  per lease: lock record holds   (see _shares.lua)
-- ARGV  1 how many keys each lease has: 3
--       then per lease: holder, ttl ms, as in renew.lua
-- Reply per lease that is refused: its number, and 'expired'; empty when all are renewed
-- include: _fence

local refused, prolonged = {}, {}

-- Many leases of one name may come in one call: its keys are prolonged once.
-- The record and the holds never end before the leases: they are prolonged with them.
local function prolong_all(k, ttl)
  if (prolonged[KEYS[k]] or 0) >= ttl then return end
  prolonged[KEYS[k]] = ttl
  local lasts = call('PTTL', KEYS[k])
  call('PEXPIRE', KEYS[k], math.max(lasts, ttl))  -- in any case, as a first write: see _when_full.lua
  if lasts >= ttl then return end
  call('PEXPIRE', KEYS[k + 1], RECORD_MS + ttl)
  call('PEXPIRE', KEYS[k + 2], ttl)
end

-- include: _rights
local lacking = lacks('PTTL', 'ZADD', 'ZSCORE')
if lacking then return lacking end

local now = tonumber(clock())
for i = 1, #KEYS / 3 do
  local k, holder, ttl = i * 3 - 2, ARGV[i * 2], tonumber(ARGV[i * 2 + 1])
  local ends = redis.pcall('ZSCORE', KEYS[k], holder)  -- an error when the key is of another kind by now
  if type(ends) == 'string' and tonumber(ends) > now then
    local later = now + ttl * 1000
    if later > tonumber(ends) then
      prolong_all(k, ttl)
      call('ZADD', KEYS[k], text(later), holder)
    end
  else
    refused[#refused + 1] = i
    refused[#refused + 1] = 'expired'
  end
end
return refused
