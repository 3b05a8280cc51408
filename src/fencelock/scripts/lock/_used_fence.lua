-- Fragment: the fences that a client used after that of its grant, see tenure.py. Included by each script
-- that ends such a tenure.
--
-- It guards I3 (fences grow). `base` is the index of the lock's first key.

-- Writes the last fence that the holder used; '' when it used that of its grant alone.
local function write_used(base, fence)
  if fence == '' then return end
  local options = string.match(redis.call('GET', KEYS[base + 1]) or '', '^%d+( .*)$')
  if not options then return end
-- include: _when_full
  redis.call('SET', KEYS[base + 1], fence .. options, 'KEEPTTL')
end
