-- Tells how many permits are taken, whether a waiter is awaited, and which holders hold, for `locked` and
-- the like; show.lua lists them for people. Changes nothing.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  holder ids
-- Reply {record or '', permits taken, holders, 1 if a waiter lives, else 0, 1 per holder id that holds,
--        else 0 …}
-- include: shares/_shares
-- include: shares/_shares_line

local now = tonumber(clock())
local record = call('GET', KEYS[2]) or ''
local taken = tonumber(string.match(record, '<shares: taken>') or 0)

local function hold_of(holder) return recorded_hold(record, holder) or call('HGET', KEYS[5], holder) end

local ended = call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now))
for i = 1, #ended do
  taken = taken - tonumber(string.match(hold_of(ended[i]) or '0', '^%d+'))
end
local holders = call('ZCARD', KEYS[1]) - #ended
if call('EXISTS', KEYS[1]) == 0 then taken = 0 end

-- Returns 1 if a live waiter is in line, else 0: a client that asks now comes after that waiter.
local function is_awaited()
  for rank = 0, UNHEARD_MAX do
    local entry = call('ZRANGE', KEYS[3], rank, rank, 'WITHSCORES')
    if not entry[1] then return 0 end
    local channel, client_channel = string.match(entry[1], '<share_entry: channel client>')
    if not channel or lives(1, now, client_channel, tonumber(entry[2])) and listens(channel) then return 1 end
  end
  return 1
end

local reply = {string.match(record, '^[^\n]*'), taken, holders, is_awaited()}
for i = 1, #ARGV do
  local ends = call('ZSCORE', KEYS[1], ARGV[i])
  reply[#reply + 1] = ends and tonumber(ends) > now and 1 or 0
end
return reply
