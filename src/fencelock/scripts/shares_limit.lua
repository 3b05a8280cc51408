-- Changes the limit that is in force, for everybody; who fits now is granted. Lowering it takes no
-- permits away: nobody is granted until enough were given back. Idempotent per request id (I4): a copy
-- of a request that comes late does not undo a change that came after it. Ids are kept among the proofs
-- of life, for 60 s.
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 kind   2 the limit that the caller names   3 the limit from now on   4 home   5 request id
-- Reply {how many permits are taken, the limit that users named first}
-- include: _fence
-- include: _line
-- include: _shares

local s, refused = open(1, ARGV[1], tonumber(ARGV[2]))
if not s then return refused end
if call('ZADD', KEYS[4], text(s.now), 'limited ' .. ARGV[5]) == 1 then
  change_limit(s, tonumber(ARGV[3]))
end
call('PEXPIRE', KEYS[4], QUEUE_MS)
serve(s, '', ARGV[4])
save(s)
return {s.taken, tonumber(string.match(s.named, '^%d+'))}
