-- Sends a probe on to the client that holds a lock: perhaps its thread or task waits, too, and a cycle of
-- waiters closes; see unit_waits.py. Changes nothing.
--
-- KEYS  lock record   (see _lock.lua)
-- ARGV  1 the holder that it is for, or '' for any   2 probe
-- Reply 1 sent, 0 not: no client holds the lock, or another one, or one that is no part of a cycle

local holder, record = redis.pcall('GET', KEYS[1]), redis.call('GET', KEYS[2]) or ''
local granted, client_channel = string.match(record, '<record: holder owned=[02] client>')
if not granted or holder ~= granted then return 0 end  -- an explicit owner may release anywhere
if ARGV[1] ~= '' and ARGV[1] ~= holder then return 0 end
-- It may be lost, and how many heard it says nothing: in a Cluster that is this node's number.
redis.pcall('PUBLISH', client_channel, 'probe ' .. holder .. ' ' .. ARGV[2])
return 1
