-- Ends a run of `once`: keeps its result, releases the lock, and notifies all clients that wait for the
-- result. Only for the run that holds the lock; or the run that held it last, when no client was
-- granted it since: then no other run has begun. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds revoked   (see _lock.lua)
--       once  string  "fence holder start end form n info value": server microseconds, and n is
--                     the length of info, which describes the client that ran
-- ARGV  1 holder   2 client channel   3 how long the result is kept from the start, ms
--       4 and from the end at least, ms   5 form of the value   6 value
-- Reply 1                kept
--       {-1, reason}     not the holder: the operator's reason when it was revoked, '' when another
--                        client holds, nil when none does

local call, holder, base = redis.call, ARGV[1], 1
-- include: _now
local last, info = string.match(call('GET', KEYS[2]) or '', '<record: holder info>$')
local current = call('GET', KEYS[1])
-- include: _not_holder
if current ~= holder and (current or last ~= holder or revoked == holder) then
  local kept = string.match(call('GET', KEYS[7]) or '', '^%d+ (%S+)')
  if kept == holder then return 1 end
  return {-1, reason}
end

local us = tonumber(now)
local fence = string.match(call('GET', KEYS[2]) or '', '^%d+') or '0'
local start = math.min(tonumber(fence), us)  -- a fence is the instant of its grant
if last ~= holder then start, info = us, '{}' end  -- the record is gone: the server forgot it
local ends_ms = math.max(tonumber(ARGV[3]) - math.floor((us - start) / 1000), tonumber(ARGV[4]))
local awaited = call('EXISTS', KEYS[3]) == 1
-- include: lock/_rights
refused = lacks('ZPOPMIN', 'ZRANGE', 'ZREM')
if refused then return refused end
-- include: _when_full
call('SET', KEYS[7], string.format('%s %s %.0f %.0f %s %d ', fence, holder, start, us, ARGV[5],
  #info) .. info .. ARGV[6], 'PX', math.max(1, ends_ms))

-- The usual case: no client waits, and no function is needed.
if not awaited then
  call('DEL', KEYS[1])
  return 1
end

-- include: lock/_lock

-- Clients that want a lock of this name wait in this line, too: only those that wait for the result are
-- notified.
for _, entry in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
  if string.find(entry, '"once":1', 1, true) then
    local waiter, _, channel = string.match(entry, '<entry: waiter holder channel>')
    call('ZREM', KEYS[3], entry)
    send_grant(channel, waiter, '0', now, '60000')
  end
end
hand_over(1, ARGV[2])
return 1
