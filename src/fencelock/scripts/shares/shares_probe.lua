-- Sends a probe on to the clients that hold so many permits that a waiter cannot be granted while one of
-- them holds: perhaps their threads or tasks wait, too, and a cycle of waiters closes; see unit_waits.py.
-- Changes nothing.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 the holder that it is for, or '' for any   2 probe   3 how many permits the waiter wants
--       4 waiter
-- Reply how many clients it was sent to
-- include: shares/_shares
-- include: _line
-- include: _listens

local HOLDERS_MAX = 100  -- further ones are not asked
local LINE_MAX = 100  -- nor is more of the line read

local record, now = call('GET', KEYS[2]) or '', tonumber(clock())
local limit = tonumber(string.match(record, '<shares: limit> ') or 0)
if limit == 0 or call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end

-- Returns how many permits must be free before the waiter is granted: no request overtakes a live one.
local function wanted()
  local most, line = tonumber(ARGV[3]), call('ZRANGE', KEYS[3], 0, LINE_MAX - 1, 'WITHSCORES')
  local before = most
  for i = 1, #line, 2 do
    local id, channel, permits, client_channel =
      string.match(line[i], '<share_entry: waiter channel permits client> ')
    if id == ARGV[4] then return before end
    if id and lives(1, now, client_channel, tonumber(line[i + 1])) and listens(channel) then
      before = math.max(before, tonumber(permits))
    end
  end
  return most  -- it is not in line now
end

local ended, most, sent = #call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now)), wanted(), 0
for _, holder in ipairs(call('ZRANGE', KEYS[1], ended, ended + HOLDERS_MAX - 1)) do
  local hold = recorded_hold(record, holder) or call('HGET', KEYS[5], holder) or ''
  local permits, client_channel = string.match(hold, '<hold: held client>')
  if client_channel and (ARGV[1] == '' or ARGV[1] == holder) and limit - permits < most then
    redis.pcall('PUBLISH', client_channel, 'probe ' .. holder .. ' ' .. ARGV[2])
    sent = sent + 1
  end
end
return sent
