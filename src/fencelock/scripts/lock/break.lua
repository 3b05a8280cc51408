-- Revokes a lease on behalf of an operator: notifies the holder, and grants to the next waiter.
-- Idempotent per request id (I4): a copy of the request takes nothing from the next holder. Ids are
-- remembered among the heartbeats, for 60 s.
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 reason   2 how long the reason is kept, ms   3 request id
-- Reply {1, holder, info}   revoked; the info is '' when an earlier copy of the request did it
--       {0, '', ''}         no client held it; the next waiter was granted all the same
-- include: lock/_lock

local holder = call('GET', KEYS[1])
if call('ZSCORE', KEYS[4], 'broke ' .. ARGV[3]) then
  return {1, string.match(call('GET', KEYS[6]) or '', '^%S*'), ''}
end
if call('ZSCORE', KEYS[4], 'found ' .. ARGV[3]) then return {0, '', ''} end
-- include: lock/_rights
refused = lacks('GET', 'ZPOPMIN')
if refused then return refused end
-- include: _when_full
remember(1, clock(), (holder and 'broke ' or 'found ') .. ARGV[3])
if not holder then
  grant_next(1, '')
  return {0, '', ''}
end
call('SET', KEYS[6], holder .. ' ' .. ARGV[1], 'PX', ARGV[2])
local granted, client_channel, info = string.match(call('GET', KEYS[2]) or '',
  '<record: holder client info>$')
hand_over(1)
if granted ~= holder then return {1, holder, ''} end
redis.pcall('PUBLISH', client_channel, 'revoked ' .. holder .. ' ' .. ARGV[1])
return {1, holder, info}
