-- Returns, for leases that are gone, which of them an operator revoked. Changes nothing.
--
-- KEYS  per lease: revoked
-- Reply per lease: 'holder reason', or ''

local replies = {}
for i = 1, #KEYS do replies[i] = redis.call('GET', KEYS[i]) or '' end
return replies
