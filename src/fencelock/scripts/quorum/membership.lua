-- Reads and updates what a node of a quorum remembers of all nodes: the run ids that voted, the longest
-- ttl in use, and until when longer leases can last. A node that was restarted has another run id,
-- which no other node remembers.
--
-- KEYS  membership
-- ARGV  1 how long it is kept, ms   2 ttl ms
--       3 client   4 the number of its claim, 0 for none
--       5 the longest ttl that the client claims, ms   6 for how long it claims it, ms; 0: it gives the
--         claim up
--       7… run ids that vote, and "?run id" of nodes that wait for their vote
-- Reply {longest ttl ms, longest claimed ttl ms, how long claims still last ms, run id, …}   before this
--       update; of a node that waits "run id ms": how long ago this node was first told of it
--
-- A claim is a field "~client" with "number ends ttl". An older claim that comes late changes nothing.
-- A node that waits is a field "~?run id" with "1 since 0": earlier versions take it for a claim that ended.

local call, kept = redis.call, tonumber(ARGV[1])
local time = call('TIME')
local now, now_ms = tonumber(time[1]), tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local found = call('HGETALL', KEYS[1])
local longest, claimed, left, reply, old, waits = 0, 0, 0, {0, 0, 0}, {}, {}
local mine, number = '~' .. ARGV[3], tonumber(ARGV[4])
for i = 1, #found, 2 do
  local field, value = found[i], found[i + 1]
  if field == 'ttl' then
    longest = tonumber(value)
  elseif string.sub(field, 1, 2) == '~?' then
    waits[string.sub(field, 2)] = true
    local since_ms = now_ms - tonumber(string.match(value, '^1 (%d+) 0$'))
    if since_ms > kept then
      old[#old + 1] = field
    else
      reply[#reply + 1] = string.sub(field, 3) .. string.format(' %.0f', math.max(0, since_ms))
    end
  elseif string.byte(field) == 126 then
    local last, ends, ttl = string.match(value, '^(%d+) (%d+) (%d+)$')
    if field == mine and tonumber(last) > number then number = 0 end
    if tonumber(ends) <= now_ms then
      old[#old + 1] = field
    elseif tonumber(ttl) > 0 then
      claimed, left = math.max(claimed, tonumber(ttl)), math.max(left, tonumber(ends) - now_ms)
    end
  elseif now - tonumber(value) > kept / 1000 then
    old[#old + 1] = field  -- no client met it for so long: it is gone
  else
    reply[#reply + 1] = field
  end
end
reply[1], reply[2], reply[3] = longest, claimed, left
-- include: _rights
local refused = lacks('HSET', 'PEXPIRE')
if refused then return refused end
call('HDEL', KEYS[1], '')  -- a first write, as in _when_full.lua
for i = 1, #old do call('HDEL', KEYS[1], old[i]) end
call('HSET', KEYS[1], 'ttl', string.format('%d', math.max(longest, tonumber(ARGV[2]))))
if number > 0 then
  local lasts = tonumber(ARGV[6])
  -- A claim that is given up stays for a minute, so that an older one that comes late is refused.
  local ends = lasts > 0 and now_ms + lasts or now_ms + 60000
  call('HSET', KEYS[1], mine, string.format('%d %.0f %d', number, ends, lasts > 0 and ARGV[5] or 0))
  left = math.max(left, lasts)
end
for i = 7, #ARGV do
  if string.byte(ARGV[i]) ~= 63 then
    call('HSET', KEYS[1], ARGV[i], string.format('%d', now))
    if waits['?' .. ARGV[i]] then call('HDEL', KEYS[1], '~?' .. ARGV[i]) end
  elseif not waits[ARGV[i]] then
    call('HSET', KEYS[1], '~' .. ARGV[i], string.format('1 %.0f 0', now_ms))
  end
end
call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(kept, left)))
return reply
