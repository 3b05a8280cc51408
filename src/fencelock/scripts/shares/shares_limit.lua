-- Changes the limit that is in force for all clients, and grants to each waiter that now fits. Lowering
-- it takes no permits away: no waiter is granted until enough are released. Idempotent per request id
-- (I4): a copy that comes late does not undo a change that came after it. Ids are remembered among the
-- heartbeats, for 60 s.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 kind   2 the limit that the caller names   3 the limit from now on   4 client channel   5 request id
-- Reply {how many permits are taken, the limit that users named first}
-- include: shares/_shares
-- include: shares/_shares_line

-- include: shares/_rights
-- include: _when_full
local s, other = open(1, ARGV[1], tonumber(ARGV[2]))
if not s then return other end
if remember(1, s.clock, 'limited ' .. ARGV[5]) == 1 then change_limit(s, tonumber(ARGV[3])) end
serve(s, '', ARGV[4])
save(s)
return {s.taken, tonumber(string.match(s.named, '^%d+'))}
