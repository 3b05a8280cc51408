-- Fragment: statements that set `reason` for a client that turns out not to be the `holder`: the
-- operator's reason when its lease was revoked; '' when another client holds; false when none does.
-- Not a function: see _next_fence.lua. `base` is the index of the lock's first key.

local revoked, reason = string.match(redis.call('GET', KEYS[base + 5]) or '', '^(%S+) (.*)$')
if revoked ~= holder then reason = redis.call('EXISTS', KEYS[base]) == 1 and '' end
