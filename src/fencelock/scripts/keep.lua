-- Prolongs the key if it is still ours: the whole renewal of the plain form (Poll). Touches one key.
--
-- KEYS  lock
-- ARGV  1 holder   2 ttl ms
-- Reply 1 prolonged, 0 not ours

local current = redis.pcall('GET', KEYS[1])  -- an error when it is another kind by now
if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
if current == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
