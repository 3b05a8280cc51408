-- Renews a lock that was acquired with Poll: prolongs the key if the holder still has it. Touches one
-- key.
--
-- KEYS  lock
-- ARGV  1 holder   2 ttl ms
-- Reply 1 renewed, 0 not the holder

local current = redis.pcall('GET', KEYS[1])  -- an error when the key is of another kind by now
if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
if current == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
