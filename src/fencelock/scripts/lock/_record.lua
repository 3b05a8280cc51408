-- Fragment: the record of a lock's grant, and the holds of explicit owners. Included after _fence.lua.
--
-- It guards I3 (fences grow). `base` is the index of the first key of a name, see _lock.lua.

local function write_record(base, fence, holder, options, lease_ms)
  call('SET', KEYS[base + 1], fence .. ' ' .. holder .. ' ' .. options, 'PX', RECORD_MS + lease_ms)
end

-- Writes the first hold of an explicit owner; holds that an earlier owner left must not count.
local function first_hold(base, waiter, lease_ms)
  call('DEL', KEYS[base + 4])
  call('SADD', KEYS[base + 4], waiter)
  call('PEXPIRE', KEYS[base + 4], lease_ms)
end
