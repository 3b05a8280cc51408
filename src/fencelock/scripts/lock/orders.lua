-- Keeps what clients learnt about the order in which they take locks, and returns all that is known.
-- A repeated call changes nothing (I4).
--
-- KEYS  orders   a hash
-- ARGV  1 ttl in ms   2 how many entries there may be   3… a name and a value for each entry
-- Reply names and values, one after the other

-- include: _rights
local refused = lacks('HGETALL', 'HLEN', 'PEXPIRE')
if refused then return refused end

for number = 3, #ARGV, 2 do
  if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('HSETNX', KEYS[1], ARGV[number], ARGV[number + 1])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
