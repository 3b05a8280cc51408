-- Fragment: what a name may hold, in the words of an error; by the type of its key, or by its kind.

local KINDS = {string = 'a lock', semaphore = 'a semaphore', rwlock = 'a reader/writer lock',
  event = 'an event', latch = 'a latch', barrier = 'a barrier'}

-- constants: LAYOUT_VERSION

-- Returns the error for a kind in another layout of the keys, as `semaphore/3` is; else nil.
local function other_layout(word)
  local kind, layout = string.match(word or '', '^(%l+)/(%d+)$')
  return kind and redis.error_reply('OTHERLAYOUT the name holds ' .. (KINDS[kind] or kind) .. ' of layout '
    .. layout .. ', this client has layout ' .. LAYOUT_VERSION)
end
