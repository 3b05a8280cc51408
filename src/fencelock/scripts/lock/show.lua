-- Lists the holders and the waiters of locks, semaphores and reader/writer locks, for people. Changes
-- nothing. A record or a line that another program replaced by something else counts as none.
--
-- KEYS  lock record queue alive holds   (see _lock.lua and _shares.lua), for each name
-- ARGV  1 how many waiters, and holders of permits, to list for each name; one holder in any case
-- Reply {now us, shown …}, shown for each name: {type of the lock key, or 'redisson' for a hash with the
--        one field of a holder in that layout, holder or '', pttl ms, first line of the record or '', waiters in line, {entry, arrival us, …}, permits taken, holders of permits,
--        {hold, end us, …}, {waiter, how many wait for its place, …}}
-- include: _now

local call, most = redis.call, tonumber(ARGV[1])

-- include: shares/_recorded

-- Returns what a command says, or `otherwise` when the key is of another type or not there.
local function read(otherwise, ...)
  local found = redis.pcall(...)
  return (type(found) ~= 'table' or not found.err) and found or otherwise
end

-- Adds permits that are taken, how many hold them, and the first of those.
local function add_holders(shown, base, record)
  local function hold_of(holder)
    return recorded_hold(record, holder) or read(false, 'HGET', KEYS[base + 4], holder)
  end
  local ended, listed = call('ZRANGEBYSCORE', KEYS[base], '-inf', now), {}
  local taken = tonumber(string.match(record, '<shares: taken>') or 0)
  for i = 1, #ended do
    taken = taken - tonumber(string.match(hold_of(ended[i]) or '0', '^%d+'))
  end
  local ids = call('ZRANGE', KEYS[base], #ended, #ended + math.max(1, most) - 1, 'WITHSCORES')
  for i = 1, #ids, 2 do
    listed[i] = hold_of(ids[i]) or ''
    listed[i + 1] = ids[i + 1]
  end
  shown[7], shown[8], shown[9] = taken, call('ZCARD', KEYS[base]) - #ended, listed
end

-- constants: LIVENESS_TIMEOUT_US
local COUNTS_MAX = 400

-- Returns waiters of a line, each followed by how many of its client wait for its place.
local function counts(base)
  local found, known, said = read({}, 'ZRANGE', KEYS[base + 3], -COUNTS_MAX, -1, 'WITHSCORES'), {}, {}
  for i = #found - 1, 1, -2 do  -- the newest first
    local waiter, count = string.match(found[i], '^n (%S+) (%d+)$')
    if waiter and not known[waiter] and tonumber(now) - tonumber(found[i + 1]) <= LIVENESS_TIMEOUT_US then
      known[waiter] = true
      said[#said + 1], said[#said + 2] = waiter, tonumber(count)
    end
  end
  return said
end

local reply = {tonumber(now)}
for base = 1, #KEYS, 5 do
  local kind, record = call('TYPE', KEYS[base]).ok, read('', 'GET', KEYS[base + 1])
  local waiting = read(0, 'ZCARD', KEYS[base + 2])
  local holder = kind == 'string' and call('GET', KEYS[base]) or ''
  if kind == 'hash' and read(0, 'HLEN', KEYS[base]) == 1 then
    holder = string.match(read({}, 'HKEYS', KEYS[base])[1] or '', '^[%x-]+:%d+$') or ''
    if holder ~= '' then kind = 'redisson' end
  end
  local shown = {kind, holder, call('PTTL', KEYS[base]),
    string.match(record, '^[^\n]*'), waiting, {}, 0, 0, {}, {}}
  if waiting > 0 and most > 0 then
    shown[6] = call('ZRANGE', KEYS[base + 2], 0, most - 1, 'WITHSCORES')
    shown[10] = counts(base)
  end
  if kind == 'zset' then add_holders(shown, base, record) end
  reply[#reply + 1] = shown
end
return reply
