-- Releases a lock that was acquired with Poll: deletes the key if the holder still has it. Touches one
-- key.
--
-- KEYS  lock
-- ARGV  1 holder
-- Reply 1 deleted, 0 another holds it, -1 none does

local current = redis.pcall('GET', KEYS[1])  -- an error when the key is of another kind by now
if type(current) == 'table' and not string.find(current.err, 'WRONGTYPE') then return current end
if current == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return current and 0 or -1
