-- Fragment: the question whether a client listens. Included after _channel.lua.

-- Returns true if a client listens to a channel. A message answers that for a user that may not ask.
local function listens(channel)
  local count = listeners(channel)
  if count then return count > 0 end
  return publish(channel, 'ping')
end
