-- Renews a lock that was acquired with Poll: prolongs the key if the holder still has it, and never
-- shortens what is left of it (I15). Touches one key.
--
-- KEYS  lock
-- ARGV  1 holder   2 ttl ms
-- Reply 1 renewed, 0 another holds it, -1 none does

-- First: so the first acquire of a client, which asks with an id that holds nothing, is refused if its
-- user may not do all that a renewal takes.
local left, current = redis.call('PTTL', KEYS[1]), redis.pcall('GET', KEYS[1])
-- An error when the key is of another kind by now.
if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
if current ~= ARGV[1] then return current and 0 or -1 end
if left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
