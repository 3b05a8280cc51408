-- Ends a run of `once`: keeps its result, gives the lock back, and tells all who wait for the
-- result. Only for the run that holds the lock; or held it last, when nobody was granted it since:
-- then nobody else has begun. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
--       once  string  "fence holder start end form n info value": server microseconds, and n is
--                     the length of info, which tells who ran
-- ARGV  1 holder   2 home   3 how long the result is kept from the start, ms
--       4 and from the end at least, ms   5 form of the value   6 value
-- Reply 1                kept
--       {-1, revoked}    not the holder; revoked is the operator's reason, or '' where somebody
--                        else holds, or nil
-- include: _fence
-- include: _line
-- include: _grant

local call, holder = redis.call, ARGV[1]
local last, info = string.match(call('GET', KEYS[2]) or '', '^%d+ (%S+) %d+ %d+ %d %S+ (.*)$')
local current = call('GET', KEYS[1])
local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
if current ~= holder and (current or last ~= holder or revoked == holder) then
  local kept = string.match(call('GET', KEYS[7]) or '', '^%d+ (%S+)')
  if kept == holder then return 1 end
  return {-1, revoked == holder and reason or current and ''}
end

local us = clock()
local now = tonumber(us)
local fence = string.match(call('GET', KEYS[2]) or '', '^%d+') or '0'
local start = math.min(tonumber(fence), now)  -- a fence is the instant of its grant
if last ~= holder then start, info = now, '{}' end  -- the record is gone: the server forgot it
local ends_ms = math.max(tonumber(ARGV[3]) - math.floor((now - start) / 1000), tonumber(ARGV[4]))
call('SET', KEYS[7], string.format('%s %s %.0f %.0f %s %d ', fence, holder, start, now, ARGV[5],
  #info) .. info .. ARGV[6], 'PX', math.max(1, ends_ms))

-- Locks of the same name stand in this line, too: only those who wait for the result are told.
for _, entry in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
  if string.find(entry, '"once":1', 1, true) then
    local waiter, _, channel = string.match(entry, '^(%S+) (%S+) (%S+)')
    call('ZREM', KEYS[3], entry)
    told(channel, waiter, '0', us, '60000')
  end
end
if not grant_next(1, '', ARGV[2]) then call('DEL', KEYS[1]) end
return 1
