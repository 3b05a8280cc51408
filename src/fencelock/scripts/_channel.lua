-- Fragment: how a script notifies a client. Included by each script that publishes.
--
-- In a Cluster the count of those that heard a message covers only this node, so a client listens at
-- the node of its lock. The last letter of a channel says how it is published:
--   !  a channel in the lock's slot: the message stays within the shard
--   +  any channel, where a Cluster has no channels of a shard: the message goes to all nodes. A client
--      might hear it at another node, where it listened before. Then "no client heard it" would be wrong,
--      and two clients could be granted. So it is published only when a client listens at this node.

-- constants: SHARDED_MARK LOCAL_MARK

-- Returns how many clients listen to a channel at this node, or nil when the user may not ask.
local function listeners(channel)
  local sharded = string.sub(channel, -1) == SHARDED_MARK
  local found = redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if found.err then return nil end
  return found[2]
end

-- Publishes a message. Returns false if no client heard it: a dead process has no subscription left.
-- A user that may not publish cannot know, and takes the client for alive.
local function publish(channel, message)
  local mark = string.sub(channel, -1)
  if (mark == SHARDED_MARK or mark == LOCAL_MARK) and listeners(channel) == 0 then return false end
  local heard = redis.pcall(mark == SHARDED_MARK and 'SPUBLISH' or 'PUBLISH', channel, message)
  return type(heard) == 'table' or heard > 0
end
