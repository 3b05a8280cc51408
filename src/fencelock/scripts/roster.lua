-- What a node of a quorum remembers of all nodes: the run ids that voted, and the longest ttl in use.
-- A node that was restarted has another run id, which no other node remembers.
--
-- KEYS  roster
-- ARGV  1 how long it is kept, ms   2 ttl ms   3… run ids that vote
-- Reply {longest ttl ms, run id, …}   as it was before

local call, kept = redis.call, tonumber(ARGV[1])
local now = tonumber(call('TIME')[1])
local found = call('HGETALL', KEYS[1])
local longest, reply, old = 0, {0}, {}
for i = 1, #found, 2 do
  if found[i] == 'ttl' then
    longest = tonumber(found[i + 1])
  elseif now - tonumber(found[i + 1]) > kept / 1000 then
    old[#old + 1] = found[i]  -- nobody met it for so long: it is gone
  else
    reply[#reply + 1] = found[i]
  end
end
reply[1] = longest
for i = 1, #old do call('HDEL', KEYS[1], old[i]) end
call('HSET', KEYS[1], 'ttl', string.format('%d', math.max(longest, tonumber(ARGV[2]))))
for i = 3, #ARGV do call('HSET', KEYS[1], ARGV[i], string.format('%d', now)) end
call('PEXPIRE', KEYS[1], ARGV[1])
return reply
