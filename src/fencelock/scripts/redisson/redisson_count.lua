-- Writes how often the holder of a lock in Redisson's layout has entered it; 0 releases it. Idempotent: the
-- client counts, and says how many it has left.
--
-- KEYS  lock channel revoked
-- ARGV  1 field   2 how often   3 'PUBLISH' or 'SPUBLISH'   4 '1' undoes an acquire that its client gave up
-- Reply 1                 done
--       {-1, reason}      not the holder: as release.lua
--       {left the line, released a grant, now us, ''}   of an undo; as abandon.lua
--
-- The channel is Redisson's. Its clients understand nothing but numbers there; 0 says that it is free.

local call, holder, count, mine = redis.call, ARGV[1], tonumber(ARGV[2]), false
-- include: _rights
local refused = ARGV[4] == '1' and lacks('TIME')
if refused then return refused end
local held = redis.pcall('HEXISTS', KEYS[1], holder)  -- an error when the key is of another kind by now
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then return held end

-- A server before sharded channels has no SPUBLISH; there Redisson publishes to all nodes.
local function announce()
  if ARGV[3] == 'SPUBLISH' then
    local heard = redis.pcall('SPUBLISH', KEYS[2], '0')
    if type(heard) ~= 'table' then return end
  end
  redis.pcall('PUBLISH', KEYS[2], '0')
end

if held == 1 then
  mine = true
  if count > 0 then
    call('HSET', KEYS[1], holder, ARGV[2])
  else
    call('DEL', KEYS[1])
    announce()
  end
end
if ARGV[4] == '1' then
-- include: _now
  return {0, mine and 1 or 0, tonumber(now), ''}
end
if mine then return 1 end
local revoked, reason = string.match(call('GET', KEYS[3]) or '', '^(%S+) (.*)$')
if revoked ~= holder then reason = call('EXISTS', KEYS[1]) == 1 and '' end
return {-1, reason}
