-- Deletes the key if it is still ours: the whole release of the plain form (Poll). Touches one key.
--
-- KEYS  lock
-- ARGV  1 holder
-- Reply 1 deleted, 0 not ours

if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
