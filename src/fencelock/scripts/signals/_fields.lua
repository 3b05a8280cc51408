-- Fragment: the fields of a state, see _signal.lua.

local function field(name) return redis.call('HGET', KEYS[1], name) end

local function number(name) return tonumber(field(name) or 0) end
