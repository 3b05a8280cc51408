-- Asks the holder's client whether it uses its lease, which it may keep while it is idle; see tenure.py.
-- Changes nothing.
--
-- KEYS  lock record   (see _lock.lua)
-- ARGV  1 holder   2 channel for the answer   3 waiter
-- Reply 1 if that client was asked, 0 if it cannot be, or the lock has another holder by now

local record = redis.call('GET', KEYS[2])
local granted, client_channel = string.match(record or '', '<record: holder owned=2 client>')
if granted ~= ARGV[1] or redis.call('GET', KEYS[1]) ~= granted then return 0 end
-- In a Cluster the count of those that hear it covers this node only, so it says nothing.
local sent = redis.pcall('PUBLISH', client_channel, 'ask ' .. granted .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
return type(sent) == 'number' and 1 or 0
