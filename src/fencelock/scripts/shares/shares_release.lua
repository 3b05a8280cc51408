-- Releases permits: to the next waiters that fit, or to none. Only their holder may.
--
-- KEYS  lock record queue alive holds revoked   (see _shares.lua)
-- ARGV  1 holder   2 client channel   3 how many permits it keeps
-- Reply 1               released, or it keeps no more than that
--       {-1, reason}    not a holder: the operator's reason when it was revoked, else nil

local call, holder = redis.call, ARGV[1]
-- include: _now

-- The usual case, in the fewest steps: no client waits, no lease has ended, and all permits come back.
if ARGV[3] == '0' and call('EXISTS', KEYS[3]) == 0 then
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 1, 'WITHSCORES')
  if first[1] == holder and not first[3] and first[2] > now then
    call('DEL', KEYS[1], KEYS[5])  -- it was the only holder: where there is no `lock`, nothing is taken
    return 1
  end
  if first[3] and first[2] > now then
    local head, taken, holds = string.match(call('GET', KEYS[2]) or '',
      '^(%d+ =%S+ %S+ %d+ )(%d+)(.*)$')
    local at = head and string.find(holds, '\n' .. holder .. ' ', 1, true)
    if at then
-- include: _rights
      local refused = lacks('SET')
      if refused then return refused end
      local permits, ends = string.match(holds, '^%S+ (%d+)[^\n]*()', at + 1)
      call('ZREM', KEYS[1], holder)  -- first, as in _when_full.lua
      call('SET', KEYS[2], head .. taken - permits .. string.sub(holds, 1, at - 1)
        .. string.sub(holds, ends), 'KEEPTTL')
      return 1
    end
  end
end

-- include: shares/_shares

-- include: shares/_rights
-- include: _when_full
local s = open(1)
local held = s and s.kind and call('HGET', KEYS[5], holder)
if held then give_back(s, holder, tonumber(ARGV[3]), held) end
if s and s.kind then
  if call('EXISTS', KEYS[3]) == 1 then
-- include: shares/_shares_line
    serve(s, '', ARGV[2])
  end
  save(s)
end
if held then return 1 end
local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
return {-1, revoked and string.find(revoked, holder, 1, true) and reason or false}
