-- Gives a leadership to a candidate who waits in line: moves it to the head and releases, in one
-- step. Only the holder may. A candidate that is gone is taken out of the line, and keeps nothing.
--
-- A leader to whom it was answered that nothing was given up leads on. So that answer is for good: it
-- is noted among the proofs of life, which are kept for 60 s, and a copy of the request that comes
-- late gives up nothing either (I1).
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 holder   2 home   3 what the candidate's entry has in its info, and no other's
--       4 '1': a candidate that does not listen is gone   5 request id
-- Reply {1, waiter}      handed over
--       {0, ''}          the candidate does not wait; nothing was given up
--       {0, 'silent'}    it stands in line and does not listen: it is gone, or its connection was
--                        lost a moment ago and it is coming back; nothing was given up
--       {-1, revoked}    not the holder; revoked is the operator's reason, or '' where
--                        somebody else holds, or nil
-- include: _fence
-- include: _line
-- include: _grant

local call, holder = redis.call, ARGV[1]
if call('GET', KEYS[1]) ~= holder then
  local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
  return {-1, revoked == holder and reason or call('EXISTS', KEYS[1]) == 1 and ''}
end

local now, kept = tonumber(clock()), 'kept ' .. ARGV[5]
if call('ZSCORE', KEYS[4], kept) then return {0, ''} end

local function hears(channel)
  local heard = publish(channel, 'here')
  return type(heard) == 'table' or heard > 0
end

local line, silent = call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), ''
for i = 1, #line, 2 do
  local entry = line[i]
  if string.find(entry, ARGV[3], 1, true) then
    local channel, home = string.match(entry, '^%S+ %S+ (%S+) %d+ %d+ %d (%S+) ')
    local alive = lives(1, now, home, tonumber(line[i + 1]))
    if alive and hears(channel) then
      -- At the head it seems to have come long ago: what was just seen proves that it lives.
      call('ZADD', KEYS[4], string.format('%.0f', now), home)
      call('PEXPIRE', KEYS[4], QUEUE_MS)
      call('ZADD', KEYS[3], string.format('%.0f', tonumber(line[2]) - 1), entry)
      return {1, (grant_next(1, '', ARGV[2]))}
    end
    if alive and ARGV[4] ~= '1' then silent = 'silent' else call('ZREM', KEYS[3], entry) end
  end
end
call('ZADD', KEYS[4], string.format('%.0f', now), kept)
call('PEXPIRE', KEYS[4], QUEUE_MS)
return {0, silent}
