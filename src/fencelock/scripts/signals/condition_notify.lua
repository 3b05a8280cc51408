-- Notifies waiters of a condition: they move to the end of the lock's line. Only the holder may.
-- Idempotent per request id (I4).
--
-- KEYS  lock record queue alive holds revoked condition notified   (see _condition.lua)
-- ARGV  1 holder   2 name of the condition   3 how many, or -1 for all   4 request id
--       5 server_timeout of the client, ms: it repeats the request for this long, and the last copy may
--         be on its way for as long again and a minute
-- Reply how many were moved; -1 when another client holds the lock, -2 when none does
-- include: signals/_condition

if call('GET', KEYS[1]) ~= ARGV[1] then return call('EXISTS', KEYS[1]) == 1 and -1 or -2 end
local until_us = text(now + 2000 * tonumber(ARGV[5]))
if call('ZADD', KEYS[8], 'NX', until_us, 'asked ' .. ARGV[4]) == 0 then return 0 end
return notify(ARGV[2], tonumber(ARGV[3]))
