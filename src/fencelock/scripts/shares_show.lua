-- Reads who holds permits and who waits, for people and for `locked`: changes nothing.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 how many holders and waiters to list, then holder ids
-- Reply {now us, record or '', permits taken, holders, {hold, end us, …}, waiters in line,
--        {entry, arrival us, …}, 1 per holder id that holds, else 0 …}
-- include: _fence

local call, now, most = redis.call, tonumber(clock()), tonumber(ARGV[1])
local record = call('GET', KEYS[2]) or ''
local taken = tonumber(string.match(record, '^%d+ =%l+ %d+ %d+ (%d+)$') or 0)
local ended = call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
for i = 1, #ended do
  taken = taken - tonumber(string.match(call('HGET', KEYS[5], ended[i]) or '0', '^%d+'))
end
local holders = call('ZCARD', KEYS[1]) - #ended
if call('EXISTS', KEYS[1]) == 0 then taken = 0 end

local listed, line = {}, {}
if most > 0 then
  local ids = call('ZRANGE', KEYS[1], #ended, #ended + most - 1, 'WITHSCORES')
  for i = 1, #ids, 2 do
    listed[i] = call('HGET', KEYS[5], ids[i]) or ''
    listed[i + 1] = ids[i + 1]
  end
  line = call('ZRANGE', KEYS[3], 0, most - 1, 'WITHSCORES')
end
local reply = {now, record, taken, holders, listed, call('ZCARD', KEYS[3]), line}
for i = 2, #ARGV do
  local ends = call('ZSCORE', KEYS[1], ARGV[i])
  reply[#reply + 1] = ends and tonumber(ends) > now and 1 or 0
end
return reply
