-- Fragment: how a client is asked for a lease that it keeps beyond its use (`linger`, see tenure.py).
-- Included by each script that finds a lock held.

-- Publishes a recall to the holder's client, if its lease is one of these; returns true if it is.
-- `record` is that of the last grant. A waiter that only tries is answered on its channel when the lease
-- is in use. Others give two words without meaning. The message may be lost: an idle lease ends soon.
local function recall_lease(record, holder, channel, waiter)
  local granted, client_channel = string.match(record or '', '<record: holder owned=2 client>')
  if not granted or granted ~= holder then return false end
  redis.pcall('PUBLISH', client_channel, 'recall ' .. holder .. ' ' .. channel .. ' ' .. waiter)
  return true
end
