-- Fragment: how a script notifies a client. Included by each script that publishes.
--
-- The last letter of a channel says how it is published in a Cluster:
--   !  a channel in the lock's slot: the message stays within the shard
--   +  any channel, where a Cluster has no channels of a shard: the message goes to all nodes

-- constants: SHARDED_MARK

-- Returns how many clients listen to a channel at this node, or nil when the user may not ask.
local function listeners(channel)
  local sharded = string.sub(channel, -1) == SHARDED_MARK
  local found = redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if found.err then return nil end
  return found[2]
end

-- Publishes a message. Returns false if no client heard it here: a dead process has no subscription left.
-- A user that may not publish cannot know, and takes the client for alive.
local function publish(channel, message)
  local sharded = string.sub(channel, -1) == SHARDED_MARK
  local heard = redis.pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, message)
  return type(heard) == 'table' or heard > 0
end
