-- Fragment: how a client is told something. Included by every script that publishes to who waits.
--
-- In a Cluster the number of those who heard it counts this node only, so a client listens at the
-- node of its lock. The last letter of its channel says how:
--   !  a channel of the lock's slot: the message stays in the shard
--   +  any channel of a client of a Cluster that has no such channels: the message goes to all nodes,
--      and would be heard at a node where the client listened before. "Nobody heard it" must be true,
--      or two are granted: so it is published only when somebody listens here.

-- Returns how many heard it, or an error as a table.
local function publish(channel, message)
  local mark = string.byte(channel, -1)
  if mark == 33 or mark == 43 then
    local here = redis.pcall('PUBSUB', mark == 33 and 'SHARDNUMSUB' or 'NUMSUB', channel)
    if not here.err and here[2] == 0 then return 0 end
    if mark == 33 then return redis.pcall('SPUBLISH', channel, message) end
  end
  return redis.pcall('PUBLISH', channel, message)
end

-- A dead process has no subscription left. A user who may not publish cannot tell, and takes it for
-- alive.
local function listens(channel)
  local heard = publish(channel, 'ping')
  return type(heard) == 'table' or heard > 0
end
