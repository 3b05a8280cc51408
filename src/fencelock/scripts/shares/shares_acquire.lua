-- Acquires permits, or a place in line for them. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 holder
--       2 the waiter entry without its terms, or '' for an attempt that does not wait in line
--       3 terms
--       4 kind   5 the limit that the caller names
--       6 a holder id of the same thread or task, or '': while that one holds, this one is granted at
--         once, nested under it (a writer that takes the read side, a reader that enters by another
--         handle)
--       7 on a further node of a quorum: the least fence, that of the first node
-- Reply fence                                    granted
--       {now us, pttl ms, position, 0}           not now; position 0 is the head, -1 is not in line
--       error OTHERLIMIT                         it is in use with another limit
--       error OVERLIMIT                          it asks for more permits than the limit
-- include: shares/_shares

local holder, head, terms, kind, declared, nested_under =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local ttl, permits, home = string.match(terms, '^(%d+) %d+ p(%d+) (%S+)')
ttl, permits = tonumber(ttl), tonumber(permits)

local s, refused = open(1, kind, declared)
if not s then return refused end
s.floor = ARGV[7]
local kept = not s.idle and call('ZSCORE', KEYS[1], holder)

if not kept and not may_name(s, declared) then
  save(s)
  return redis.error_reply(string.format('OTHERLIMIT it has %d, not %d', s.limit, declared))
end
if not kept and permits > s.limit then
  save(s)
  return redis.error_reply(string.format('OVERLIMIT it has %d: nobody can have %d permits',
    s.limit, permits))
end

local function fits() return s.taken + permits <= s.limit end

-- The usual case: no client waits, and the permits are free.
local queued = not s.idle and call('EXISTS', KEYS[3]) == 1
if not kept and not queued and nested_under == '' and fits() then
  local fence = take(s, holder, permits, terms, ttl)
  save(s)
  return text(fence)
end

-- include: shares/_shares_line
-- include: _enqueue

local entry = head ~= '' and head .. terms or ''

-- The holder asks again: a repeated request. It gets a full lease, as the first reply would have said.
local function renew_held()
  local ends = math.max(tonumber(kept), s.now + ttl * 1000)
  call('ZADD', KEYS[1], text(ends), holder)
  s.changed = true
  serve(s, '', home)
  return tonumber(string.match(call('HGET', KEYS[5], holder), '^%d+ (%d+)'))
end

local function decide()
  if kept then return renew_held() end
  if nested_under ~= '' then
    local own = call('ZSCORE', KEYS[1], nested_under) and take(s, holder, permits, terms, ttl)
    serve(s, '', home)
    return own
  end
  if queued then
    if entry ~= '' then enqueue(KEYS[3], entry, s.clock) end
    local fence = serve(s, holder, home)
    if fence or entry ~= '' then return fence end
  end
  -- No client comes first any more: those that did were granted, or do not listen.
  if fits() and not s.held_up then
    return take(s, holder, permits, terms, ttl)
  end
  if entry ~= '' then
    enqueue(KEYS[3], entry, s.clock)
    s.lacking = s.taken + permits - s.limit
  end
end

local fence = decide()
save(s)
if fence then return text(fence) end
local position = entry ~= '' and call('ZRANK', KEYS[3], entry) or -1
return {s.now, room_in_ms(s), position, 0}
