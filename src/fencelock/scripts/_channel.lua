-- Fragment: how a script notifies a client. Included by each script that publishes.
--
-- It guards a part of I1: in a Cluster a message goes to other nodes, too. So one of a master that was
-- replaced, and wakes up, reaches clients at its successor, which may have granted the same lock. A message
-- says which node sends it, where the client reads that.
--
-- The last letter of a channel says how it is published in a Cluster:
--   !  a channel in the lock's slot: the message stays within the shard
--   +  any channel, where a Cluster has no channels of a shard: the message goes to all nodes
-- The letter before it is # if the client reads "@node" before a message; clients of earlier builds refuse
-- a word more.

-- constants: SHARDED_MARK NODE_MARK NODE_WORD

-- Returns how many clients listen to a channel at this node, or nil when the user may not ask.
local function listeners(channel)
  local sharded = string.sub(channel, -1) == SHARDED_MARK
  local found = redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if found.err then return nil end
  return found[2]
end

-- Returns a message with the node that sends it; without, when the user may not ask for that.
local function signed(message)
  local node = redis.pcall('CLUSTER', 'MYID')
  return type(node) == 'string' and NODE_WORD .. node .. ' ' .. message or message
end

-- Publishes a message. Returns false if no client heard it here: a dead process has no subscription left.
-- A user that may not publish cannot know, and takes the client for alive.
local function publish(channel, message)
  local sharded = string.sub(channel, -1) == SHARDED_MARK
  if string.sub(channel, -2, -2) == NODE_MARK then message = signed(message) end
  local heard = redis.pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, message)
  return type(heard) == 'table' or heard > 0
end
