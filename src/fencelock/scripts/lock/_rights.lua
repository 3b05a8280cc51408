-- Fragment: statements that end a script whose user may not do all that a grant from the line takes, see
-- _lock.lua. Included before the first write, by each script that can grant so; what a script runs besides
-- before it grants, it asks for itself.

-- include: _rights

local refused = lacks('DEL', 'PEXPIRE', 'SADD', 'SET', 'TIME', 'ZADD', 'ZSCORE')
if refused then return refused end
