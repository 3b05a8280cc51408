-- Keeps the heartbeat of a client that waits, grants what ended leases left, and says where the
-- client's waiters are in line (I6, I7). One call for many names.
--
-- KEYS  per name: lock record queue alive holds   (see _shares.lua)
-- ARGV  1 channel of the client, then per name: n, and n waiter entries
-- Reply {now us, per name {'', whose, pttl ms, 0, {position or -1 per entry}}}, as in heartbeat.lua.
--       A waiter that is no longer in line asks again: it was granted, or the name is another kind of
--       thing by now.
-- include: shares/_shares
-- include: shares/_shares_line
-- include: _heartbeat

-- include: shares/_rights
refused = lacks('ZRANK', 'ZREMRANGEBYSCORE')
if refused then return refused end
-- include: _when_full
local now, base, arg, reply = tonumber(clock()), 1, 2, {}
reply[1] = now
while base <= #KEYS do
  local s, positions, n = open(base), {}, tonumber(ARGV[arg])
  local ours = s and s.kind
  if ours then
    heartbeat(base, s.clock, ARGV[1])
    serve(s, '', ARGV[1])
    save(s)
  end
  for i = 1, n do positions[i] = ours and call('ZRANK', KEYS[base + 2], ARGV[arg + i]) or -1 end
  reply[#reply + 1] = {'', ours and first_holder(s) or '', ours and room_in_ms(s) or -1, 0, positions}
  base, arg = base + 5, arg + n + 1
end
return reply
