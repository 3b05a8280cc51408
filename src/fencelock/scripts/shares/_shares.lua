-- Fragment: leases that several clients may hold at once, up to a limit: the permits of a semaphore,
-- and the readers and writers of a reader/writer lock, where a reader takes one permit and a writer
-- takes all. Included by each script of them; _shares_line.lua has their line, so that a call which finds
-- no waiter need not build it.
--
-- It guards I1 (one script decides; taken permits never pass the limit), I5 (first come, first
-- served: no request overtakes the head of the line, so a large one is not starved), I7 (dead waiters
-- are skipped), I10 (each key ends by itself). Each holder has a lease of its own.
--
-- The keys of one name always come together and in this order; `base` is the index of the first:
--   lock     zset    holder id -> the end of its lease (server microseconds)
--   record   string  "fence =kind named limit taken": the last fence, the limits that users may name
--                    ("2" or "2,5,10": the first one, and others that were in force since), the limit
--                    in force, and the permits of all holders in `lock`; then a line for each hold of
--                    the usual case, "holder permits fence options"
--   queue    zset    waiter entries by arrival, as in _lock.lua, except for the options
--   alive    zset    as in _lock.lua
--   holds    hash    holder id -> "permits fence options", for the holders without such a line
--   revoked  string  "holder,holder… reason", after an operator revoked the leases
--
-- The options are "ttl handoff_ttl pN client info", with N permits. A lease whose end has come holds nothing:
-- `open` removes it before anything is decided.
--
-- The usual case, in shares_acquire.lua and shares_release.lua, writes a hold into the record: that is two
-- commands fewer. `open` moves these holds to `holds`, so all other code looks only there. Without `lock`
-- no client holds: then the permits that the record counts, and its holds, are those of leases that ended.

-- include: _fence
-- include: _kinds

-- The ends of this many leases are added up to find out when the head of the line can be granted.
local ENDS_SUMMED = 10
-- This many limits that users may name are remembered.
local NAMED_MAX = 8

-- include: shares/_recorded

local function permits_of(s, holder)
  local hold = call('HGET', KEYS[s.base + 4], holder)
  return hold and tonumber(string.match(hold, '^%d+')) or 0
end

-- Removes the leases whose end has come.
local function purge(s)
  local ended = call('ZRANGEBYSCORE', KEYS[s.base], '-inf', text(s.now))
  for i = 1, #ended do
    s.taken = s.taken - permits_of(s, ended[i])
    call('HDEL', KEYS[s.base + 4], ended[i])
    call('ZREM', KEYS[s.base], ended[i])
    s.changed = true
  end
end

local function foreign(s, kind, found)
  if found == 'hash' then found = call('HGET', KEYS[s.base], 'kind') or found end
  local word = found == 'zset' and string.match(s.record or '', '^%d+ =(%S+) ') or found
  local refusal = other_layout(word)
  if refusal then return refusal end
  local holds = KINDS[found] or KINDS[kind] or 'something else (' .. found .. ')'
  return redis.error_reply('WRONGTYPE the name holds ' .. holds)
end

local function is_named(s, limit)
  return string.find(',' .. s.named .. ',', ',' .. text(limit) .. ',', 1, true) ~= nil
end

-- Users name the limit in force, or one that was in force when they started.
local function may_name(s, limit)
  return s.limit == limit or s.named ~= nil and is_named(s, limit)
end

local function change_limit(s, limit)
  if not is_named(s, s.limit) then
    s.named = s.named .. ',' .. text(s.limit)
    local _, commas = string.gsub(s.named, ',', ',')
    if commas >= NAMED_MAX then s.named = string.gsub(s.named, '^(%d+),%d+', '%1') end
  end
  s.limit, s.changed = limit, true
end

-- Moves the holds of the record to `holds`.
local function move_holds(s, holds)
  local moved = {}
  for holder, hold in string.gmatch(holds, '(%S+) ([^\n]*)') do
    moved[#moved + 1] = holder
    moved[#moved + 1] = hold
  end
  call('HSET', KEYS[s.base + 4], unpack(moved))
  s.changed = true
end

-- Returns the state of a name as a table, or nil and an error when it holds something else.
-- `kind` and `declared` (the limit) are what the caller expects; without them the record decides.
local function open(base, kind, declared)
  local found, record = call('TYPE', KEYS[base]).ok, call('GET', KEYS[base + 1])
  local s = {base = base, clock = clock(), record = record, changed = false}
  s.now = tonumber(s.clock)
  local known, named, limit, taken, holds = string.match(record or '',
    '<shares: kind named limit taken>(.*)$')
  local idle = found == 'none' and call('EXISTS', KEYS[base + 2]) == 0
  if not (found == 'zset' and known or found == 'none' and (known or idle)) then
    return nil, foreign(s, nil, found)
  end
  if kind and known ~= kind and not idle then return nil, foreign(s, known, '') end
  s.kind, s.named, s.limit = known, named, tonumber(limit)
  if kind and (known ~= kind or idle and not may_name(s, declared)) then  -- its first use
    s.kind, s.named, s.limit = kind, text(declared), declared
  end
  s.taken, s.idle, s.last = tonumber(taken or 0), idle, 0
  if found == 'zset' then
    if holds ~= '' then move_holds(s, holds) end
    purge(s)
    s.last = nil
  elseif s.kind and (s.taken > 0 or known ~= kind) then  -- all leases ended, and the key with them
    call('DEL', KEYS[base + 4])
    s.taken = 0
  end
  return s
end

-- Writes what has changed. Each key lasts as long as the last lease, the record longer. `s.last` is
-- the end of the last lease where that is known: when no client held before.
local function save(s)
  if not s.changed then return end
  local left = 0
  if s.taken > 0 then
    local last = s.last or call('ZRANGE', KEYS[s.base], -1, -1, 'WITHSCORES')[2] or s.now
    left = math.max(1, math.ceil((tonumber(last) - s.now) / 1000))
  end
  local fence = s.fence or tonumber(string.match(s.record or '', '^%d+') or 0)
  call('SET', KEYS[s.base + 1],
    string.format('%.0f =%s %s %d %d', fence, s.kind, s.named, s.limit, s.taken),
    'PX', RECORD_MS + left)
  if left > 0 then
    call('PEXPIRE', KEYS[s.base], left)
    call('PEXPIRE', KEYS[s.base + 4], left)
  end
end

local function fence_after(s)
  return s.fence and s.fence + 1 or tonumber(next_fence(s.record, s.clock))
end

local function take(s, holder, permits, options, lease_ms)
  s.fence = fence_after(s)
  local ends = s.now + lease_ms * 1000
  if s.last then s.last = math.max(s.last, ends) end
  call('ZADD', KEYS[s.base], text(ends), holder)
  call('HSET', KEYS[s.base + 4], holder, string.format('%d %.0f %s', permits, s.fence, options))
  s.taken, s.changed = s.taken + permits, true
  return s.fence
end

-- A holder keeps `keep` permits, or nothing. Repeated it changes nothing (I4).
local function give_back(s, holder, keep, hold)
  local permits, rest = string.match(hold, '^(%d+)(.*)$')
  permits = tonumber(permits)
  if keep == 0 then
    call('ZREM', KEYS[s.base], holder)
    call('HDEL', KEYS[s.base + 4], holder)
  elseif keep < permits then
    call('HSET', KEYS[s.base + 4], holder, string.format('%d', keep) .. rest)
  end
  s.taken, s.changed = s.taken - math.max(0, permits - keep), true
end

-- Returns "fence info" of the holder whose lease ends first, for people; '' when there is none.
local function first_holder(s)
  local first = call('ZRANGE', KEYS[s.base], 0, 0)[1]
  local fence, info = string.match(first and call('HGET', KEYS[s.base + 4], first) or '',
    '<hold: fence info>')
  return fence and fence .. ' ' .. info or ''
end

-- Returns after how many ms the head of the line can be granted if no holder releases or renews, or -1
-- when there is no holder. It is a lower bound when that takes more leases than are looked at.
local function room_in_ms(s)
  local ends, lacking, last = call('ZRANGE', KEYS[s.base], 0, ENDS_SUMMED - 1, 'WITHSCORES'),
    s.lacking or 1, nil
  for i = 1, #ends, 2 do
    last = tonumber(ends[i + 1])
    lacking = lacking - permits_of(s, ends[i])
    if lacking <= 0 then break end
  end
  return last and math.max(0, math.ceil((last - s.now) / 1000)) or -1
end
