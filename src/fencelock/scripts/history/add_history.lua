-- Adds entries to the history of a prefix. Each has an id of its own, by which readers leave out what a
-- repeated request added twice (I4). The oldest are dropped, about a hundred at a time.
--
-- KEYS  history   stream
-- ARGV  1 how many entries to keep   2 how long to keep them at least after this, ms   then entries
-- Reply how many entries were given

-- include: _rights
local refused = lacks('PEXPIRE', 'PTTL')
if refused then return refused end

for i = 3, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'entry', ARGV[i]) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return #ARGV - 2
