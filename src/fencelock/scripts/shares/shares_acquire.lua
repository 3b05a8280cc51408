-- Acquires permits, or a place in line for them. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 holder
--       2 the waiter entry without its options, or '' for an attempt that does not wait in line
--       3 options
--       4 kind   5 the limit that the caller names
--       6 a holder id of the same thread or task, or '': while that one holds, this one is granted at
--         once, nested under it (a writer that takes the read side, a reader that enters by another
--         handle)
-- Reply fence                                    granted
--       {now us, pttl ms, position, 0, whose}    not now; position 0 is the head, -1 is not in line;
--                                                whose: "fence info" of the first holder, or ''
--       error OTHERLIMIT                         it is in use with another limit
--       error OVERLIMIT                          it asks for more permits than the limit

-- All is read before anything is written, here and below: a user that may not read leaves no lease.
local call, holder, options, kind, limit = redis.call, ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local ttl, permits = string.match(options, '<share_options: ttl permits> ')
-- include: _now

-- constants: HOLDS_BYTES RECORD_MS

-- The usual case, in the fewest steps: no client waits, no lease has ended, the permits are free, and no
-- client ever named another limit. The hold is written with the record, see _shares.lua.
if ARGV[6] == '' then
  local last, agreed = call('GET', KEYS[2]), ' =' .. kind .. ' ' .. limit .. ' ' .. limit .. ' '
  local same = last and string.sub(last, 17, 16 + #agreed) == agreed
  local there, taken, holds, lasts = call('EXISTS', KEYS[1], KEYS[3]), nil, nil, nil
  if there == 0 and (same or not last) then
    taken, holds, lasts = 0, '', 0
  elseif there == 1 and same then
    local first = redis.pcall('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    if first[1] and first[2] > now and not call('ZSCORE', KEYS[1], holder) then
      taken, holds = string.match(last, '^(%d+)(.*)$', 17 + #agreed)
      lasts = call('PTTL', KEYS[1])
    end
  end
  if taken and taken + permits <= tonumber(limit) and #holds < HOLDS_BYTES then
    local ends = now + ttl * 1000
-- include: _rights
    local refused = lacks('PEXPIRE', 'ZADD')
    if refused then return refused end
-- include: _next_fence
    call('SET', KEYS[2], fence .. agreed .. taken + permits .. holds .. '\n' .. holder .. ' '
      .. permits .. ' ' .. fence .. ' ' .. options, 'PX', RECORD_MS + math.max(lasts, ttl))
    call('ZADD', KEYS[1], ends, holder)
    if lasts < tonumber(ttl) then
      call('PEXPIRE', KEYS[1], ttl)
      if lasts > 0 then call('PEXPIRE', KEYS[5], ttl) end
    end
    return fence
  end
end

-- include: shares/_shares

local head, declared, nested_under = ARGV[2], tonumber(limit), ARGV[6]
local client_channel = string.match(options, '<share_options: client>')
ttl, permits = tonumber(ttl), tonumber(permits)

-- include: shares/_rights
refused = lacks('ZCARD', 'ZRANK')
if refused then return refused end

local s, other = open(1, kind, declared)
if not s then return other end
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

local queued = not s.idle and call('EXISTS', KEYS[3]) == 1

-- include: shares/_shares_line
-- include: _enqueue

local entry = head ~= '' and head .. options or ''

-- The holder asks again: a repeated request. It gets a full lease, as the first reply would have said.
local function renew_held()
  local ends = math.max(tonumber(kept), s.now + ttl * 1000)
  call('ZADD', KEYS[1], text(ends), holder)
  s.changed = true
  serve(s, '', client_channel)
  return tonumber(string.match(call('HGET', KEYS[5], holder), '<hold: fence>'))
end

local function decide()
  if kept then return renew_held() end
  if nested_under ~= '' then
    local own = call('ZSCORE', KEYS[1], nested_under) and take(s, holder, permits, options, ttl)
    serve(s, '', client_channel)
    return own
  end
  if queued then
    if entry ~= '' then enqueue(KEYS[3], entry, s.clock) end
    local fence = serve(s, holder, client_channel)
    if fence or entry ~= '' then return fence end
  end
  -- No client comes first any more: those that did were granted, or do not listen.
  if fits() and not s.held_up then
    return take(s, holder, permits, options, ttl)
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
return {s.now, room_in_ms(s), position, 0, first_holder(s)}
