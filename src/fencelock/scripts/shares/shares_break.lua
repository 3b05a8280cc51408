-- Revokes leases of a name on behalf of an operator: notifies the holders, and grants to the next
-- waiters. Idempotent per request id (I4), as break.lua.
--
-- KEYS  lock record queue alive holds revoked   (see _shares.lua)
-- ARGV  1 reason   2 how long the reason is kept, ms
--       3 a text in the options of the leases to revoke, or '' for all   4 request id
-- Reply {how many were revoked}
-- include: shares/_shares
-- include: shares/_shares_line

-- include: shares/_rights
-- include: _when_full
local s, other = open(1)
if not s then return other end
if not s.kind then return {0} end
if call('ZSCORE', KEYS[4], 'broke ' .. ARGV[4]) then
  save(s)
  local _, commas = string.gsub(string.match(call('GET', KEYS[6]) or '', '^%S*'), ',', ',')
  return {commas + 1}
end
if call('ZSCORE', KEYS[4], 'found ' .. ARGV[4]) then
  save(s)
  return {0}
end
local all, holders, client_channels = call('ZRANGE', KEYS[1], 0, -1), {}, {}
for i = 1, #all do
  local hold = call('HGET', KEYS[5], all[i])
  if string.find(hold, ARGV[3], 1, true) then
    holders[#holders + 1] = all[i]
    client_channels[#client_channels + 1] = string.match(hold, '<hold: client>')
    give_back(s, all[i], 0, hold)
  end
end
if #holders > 0 then
  call('SET', KEYS[6], table.concat(holders, ',') .. ' ' .. ARGV[1], 'PX', ARGV[2])
end
remember(1, s.clock, (#holders > 0 and 'broke ' or 'found ') .. ARGV[4])
serve(s, '', '')
save(s)
for i = 1, #holders do
  redis.pcall('PUBLISH', client_channels[i], 'revoked ' .. holders[i] .. ' ' .. ARGV[1])
end
return {#holders}
