-- Lists the holders of permits and the waiters, for people and for `locked`. Changes nothing.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 how many holders and waiters to list; below 0: none, and instead of the number of waiters
--         1 if one of them lives, else 0
--       then holder ids
-- Reply {now us, record or '', permits taken, holders, {hold, end us, …}, waiters in line,
--        {entry, arrival us, …}, 1 per holder id that holds, else 0 …}
-- include: shares/_shares
-- include: shares/_shares_line

local now, most = tonumber(clock()), tonumber(ARGV[1])
local record = call('GET', KEYS[2]) or ''
local taken = tonumber(string.match(record, '^%d+ =%l+ [%d,]+ %d+ (%d+)$') or 0)
local ended = call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now))
for i = 1, #ended do
  taken = taken - tonumber(string.match(call('HGET', KEYS[5], ended[i]) or '0', '^%d+'))
end
local holders = call('ZCARD', KEYS[1]) - #ended
if call('EXISTS', KEYS[1]) == 0 then taken = 0 end

-- Returns 1 if a live waiter is in line, else 0: a client that asks now comes after that waiter.
local function is_awaited()
  for rank = 0, UNHEARD_MAX do
    local entry = call('ZRANGE', KEYS[3], rank, rank, 'WITHSCORES')
    if not entry[1] then return 0 end
    local channel, home = string.match(entry[1], '^%S+ %S+ (%S+) %d+ %d+ p%d+ (%S+)')
    if not channel or lives(1, now, home, tonumber(entry[2])) and listens(channel) then return 1 end
  end
  return 1
end

local listed, line = {}, {}
if most > 0 then
  local ids = call('ZRANGE', KEYS[1], #ended, #ended + most - 1, 'WITHSCORES')
  for i = 1, #ids, 2 do
    listed[i] = call('HGET', KEYS[5], ids[i]) or ''
    listed[i + 1] = ids[i + 1]
  end
  line = call('ZRANGE', KEYS[3], 0, most - 1, 'WITHSCORES')
end
local waiting = most < 0 and is_awaited() or call('ZCARD', KEYS[3])
local reply = {now, record, taken, holders, listed, waiting, line}
for i = 2, #ARGV do
  local ends = call('ZSCORE', KEYS[1], ARGV[i])
  reply[#reply + 1] = ends and tonumber(ends) > now and 1 or 0
end
return reply
