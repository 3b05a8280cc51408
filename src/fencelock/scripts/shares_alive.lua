-- Proves that a client's waiters live, grants what ended leases left, and tells where the waiters
-- stand (I6, I7). One call for many names.
--
-- KEYS  per name: lock record queue alive holds   (see _shares.lua)
-- ARGV  1 home of the client, then per name: n, and n waiter entries
-- Reply {now us, per name {'', 0, pttl ms, 0, {position or -1 per entry}}}, as alive.lua has it;
--       whoever is not in line any more asks again: it was granted, or the name is another thing now
-- include: _fence
-- include: _line
-- include: _shares

local FORGET_US = 60000000  -- proofs older than any patience are dropped

local now, base, arg, reply = tonumber(clock()), 1, 2, {}
reply[1] = now
while base <= #KEYS do
  local s, positions, n = open(base), {}, tonumber(ARGV[arg])
  local ours = s and s.kind
  if ours then
    call('ZADD', KEYS[base + 3], text(now), ARGV[1])
    call('ZREMRANGEBYSCORE', KEYS[base + 3], '-inf', text(now - FORGET_US))
    call('PEXPIRE', KEYS[base + 3], QUEUE_MS)
    call('PEXPIRE', KEYS[base + 2], QUEUE_MS)
    serve(s, '', ARGV[1])
    save(s)
  end
  for i = 1, n do positions[i] = ours and call('ZRANK', KEYS[base + 2], ARGV[arg + i]) or -1 end
  reply[#reply + 1] = {'', 0, ours and patience_ms(s) or -1, 0, positions}
  base, arg = base + 5, arg + n + 1
end
return reply
