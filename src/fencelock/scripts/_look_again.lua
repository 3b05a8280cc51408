-- Fragment: how a waiter learns that a lease ends at another time than the server said (I6). Included by
-- each script that moves that.

-- include: _channel

-- Has the first waiter of a line that hears it ask again; it keeps its place.
local function look_again(queue)
  for _, entry in ipairs(call('ZRANGE', queue, 0, 99)) do
    local id, channel = string.match(entry, '^(%S+) %S+ (%S+)')
    if id and publish(channel, 'again ' .. id) then return end
  end
end
