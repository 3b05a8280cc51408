-- Renews leases: one call for many, each only for its own holder (I11).
--
-- KEYS  per lease: lock record, and holds for explicit owners
-- ARGV  1 how many keys each lease has: 2, or 3 for explicit owners
--       then per lease: holder, ttl ms. A lease with more than that left keeps it (I2)
-- Reply per lease that is refused: its number, and 'expired' or 'taken'; empty when all are renewed

-- constants: RECORD_MS

local call, each, refused, record_ms = redis.call, tonumber(ARGV[1]), {}, {}

local function renew_keys(k, ttl)
  -- A number is turned into text at each call: once per ttl is enough.
  if not record_ms[ttl] then record_ms[ttl] = string.format('%d', RECORD_MS + ttl) end
  call('PEXPIRE', KEYS[k], ttl)
  call('PEXPIRE', KEYS[k + 1], record_ms[ttl])
  if each == 3 then call('PEXPIRE', KEYS[k + 2], ttl) end
end

for i = 1, #KEYS / each do
  local k, holder, ttl = (i - 1) * each + 1, ARGV[i * 2], ARGV[i * 2 + 1]
  local current = redis.pcall('GET', KEYS[k])  -- an error when the key is of another kind by now
  if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
  if current ~= holder then
    refused[#refused + 1] = i
    refused[#refused + 1] = current and 'taken' or 'expired'
  elseif call('PTTL', KEYS[k]) < tonumber(ttl) then
    renew_keys(k, ttl)
  end
end
return refused
