-- Renews locks in Redisson's layout: one call for many, each only for its own field (I11).
--
-- KEYS  lock, for each lease
-- ARGV  as renew.lua: 1 '1'   then per lease: field, ttl ms
-- Reply as renew.lua

local call, refused = redis.call, {}

for i = 1, #KEYS do
  local field, ttl = ARGV[i * 2], ARGV[i * 2 + 1]
  local held = redis.pcall('HEXISTS', KEYS[i], field)  -- as in redisson_count.lua
  if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then return held end
  if held ~= 1 then
    refused[#refused + 1] = i
    refused[#refused + 1] = call('EXISTS', KEYS[i]) == 1 and 'taken' or 'expired'
  elseif call('PTTL', KEYS[i]) < tonumber(ttl) then
    call('PEXPIRE', KEYS[i], ttl)
  end
end
return refused
