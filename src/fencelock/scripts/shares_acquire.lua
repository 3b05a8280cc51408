-- Takes permits, or a place in line for them. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds   (see _shares.lua)
-- ARGV  1 holder   2 channel, or '' for an attempt that does not wait in line   3 terms
--       4 kind   5 the limit that the caller names
--       6 a holder id of the same thread or task, or '': while that one holds, this one is granted at
--         once beside it (a writer that takes the read side, a reader that enters by another handle)
--       7 on a further node of a quorum: the least fence, that of the first node
-- Reply fence                                    granted
--       {now us, pttl ms, position, 0}           not now; position 0 is the head, -1 is not in line
--       error OTHERLIMIT                         it is in use with another limit
--       error OVERLIMIT                          more permits than there are
-- include: _fence
-- include: _line
-- include: _shares

local holder, channel, terms, kind, declared, beside =
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

local function entry() return table.concat({holder, holder, channel, terms}, ' ') end

-- Arrival is the server's clock, and never before the last in line: first come, first served.
local function line_up()
  local last = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local arrival = s.now
  if last[2] and tonumber(last[2]) >= arrival then arrival = tonumber(last[2]) + 1 end
  call('ZADD', KEYS[3], 'NX', text(arrival), entry())
  call('PEXPIRE', KEYS[3], QUEUE_MS)
end

local function fits() return s.taken + permits <= s.limit end

-- Asked again by the holder: a repeated request. A full lease, as the first answer would have been.
local function keep()
  local ends = math.max(tonumber(kept), s.now + ttl * 1000)
  call('ZADD', KEYS[1], text(ends), holder)
  s.changed = true
  serve(s, '', home)
  return tonumber(string.match(call('HGET', KEYS[5], holder), '^%d+ (%d+)'))
end

local function decide()
  if kept then return keep() end
  if beside ~= '' then
    local own = call('ZSCORE', KEYS[1], beside) and take(s, holder, permits, terms, ttl)
    serve(s, '', home)
    return own
  end
  local queued, fence = not s.idle and call('EXISTS', KEYS[3]) == 1, nil
  if queued then
    if channel ~= '' then line_up() end
    fence = serve(s, holder, home)
    if fence or channel ~= '' then return fence end
  end
  -- Nobody comes first any more: those who did were granted, or do not hear us.
  if fits() and not s.held_up then
    return take(s, holder, permits, terms, ttl)
  end
  if channel ~= '' then
    line_up()
    s.lacking = s.taken + permits - s.limit
  end
end

local fence = decide()
save(s)
if fence then return text(fence) end
local position = channel ~= '' and call('ZRANK', KEYS[3], entry()) or -1
return {s.now, patience_ms(s), position, 0}
