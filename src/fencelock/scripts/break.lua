-- Revokes a lease by an operator's word: the holder is told, the next in line is granted.
--
-- KEYS  lock record queue alive holds revoked   (see _grant.lua)
-- ARGV  1 reason   2 how long the reason is kept, ms
-- Reply {1, holder, info}   revoked
--       {0, '', ''}         nobody held it; the line was moved all the same
-- include: _fence
-- include: _line
-- include: _grant

local holder = redis.call('GET', KEYS[1])
if not holder then
  grant_next(1, '')
  return {0, '', ''}
end
redis.call('SET', KEYS[6], holder .. ' ' .. ARGV[1], 'PX', ARGV[2])
local granted, home, info = string.match(redis.call('GET', KEYS[2]) or '',
  '^%d+ (%S+) %d+ %d+ %d (%S+) (.*)$')
if not grant_next(1, '') then redis.call('DEL', KEYS[1]) end
if granted ~= holder then return {1, holder, ''} end
redis.pcall('PUBLISH', home, 'revoked ' .. holder .. ' ' .. ARGV[1])
return {1, holder, info}
