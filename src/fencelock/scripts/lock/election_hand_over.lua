-- Hands a leadership to a candidate that waits in line: moves it to the head and releases, in one step.
-- Only the holder may. A candidate that is gone is removed from the line.
--
-- A leader that got the reply that nothing was given up continues to lead. So that reply is final: the
-- request is remembered among the heartbeats, for 60 s, and a copy of it that comes late gives up
-- nothing either (I1).
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
-- ARGV  1 holder   2 client channel   3 a text in the info of the candidate's entry, and of no other
--       4 '1': a candidate that does not listen is gone   5 request id
-- Reply {1, waiter}      handed over
--       {0, ''}          the candidate does not wait; nothing was given up
--       {0, 'silent'}    it is in line and does not listen: it is gone, or its connection was lost a
--                        moment ago and it is coming back; nothing was given up
--       {-1, reason}     not the holder: the operator's reason when it was revoked, '' when another
--                        client holds, nil when none does
-- include: lock/_lock
-- include: _listens

local holder, base = ARGV[1], 1
if call('GET', KEYS[1]) ~= holder then
-- include: _not_holder
  return {-1, reason}
end

local now, kept = clock(), 'kept ' .. ARGV[5]
if call('ZSCORE', KEYS[4], kept) then return {0, ''} end

-- include: lock/_rights
refused = lacks('GET', 'ZPOPMIN', 'ZREM')
if refused then return refused end
-- include: _when_full
local line, silent = call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), ''
for i = 1, #line, 2 do
  local entry = line[i]
  if string.find(entry, ARGV[3], 1, true) then
    local channel, client_channel = string.match(entry, '<entry: channel client> ')
    local alive = lives(1, tonumber(now), client_channel, tonumber(line[i + 1]))
    if alive and listens(channel) then
      -- At the head it seems to have come long ago: its subscription is the newest sign of life.
      remember(1, now, client_channel)
      call('ZADD', KEYS[3], text(tonumber(line[2]) - 1), entry)
      return {1, (grant_next(1, '', ARGV[2]))}
    end
    if alive and ARGV[4] ~= '1' then silent = 'silent' else call('ZREM', KEYS[3], entry) end
  end
end
remember(1, now, kept)
return {0, silent}
