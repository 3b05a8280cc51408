-- Fragment: statements that set `now` to the server's clock in microseconds, as text: 16 digits until
-- the year 2286. Not a function: see _next_fence.lua.

local t = redis.call('TIME')
local now = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
