-- Makes all watchers of a lock look: its holder has changed.
--
-- KEYS  watchers   (see election_watch.lua)
-- Reply how many watchers heard it
-- include: _channel

local heard = 0
for _, watcher in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local waiter, channel = string.match(watcher, '^(%S+) (%S+)$')
  -- As a grant that is over at once, without fence and time: it makes a watcher look.
  if publish(channel, 'granted ' .. waiter .. ' 0 0 0') then
    heard = heard + 1
  else
    redis.call('ZREM', KEYS[1], watcher)
  end
end
return heard
