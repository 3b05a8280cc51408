-- Fragment: who is granted next. This rule serves locks (_lock.lua) and what several clients may hold
-- at once (_shares.lua). Included by these two, after _fence.lua and _line.lua.
--
-- It guards I1 (one script decides), I5 (first come, first served; a release hands over) and I7 (dead
-- waiters are skipped).
--
-- A `pool` is what a name has to give: `base` is the index of the name's first key, `clock` the
-- server's clock as text, and `full` ends the granting. What differs between the kinds is in `kind`:
--   waiter_of(entry)                    the waiter as a table: id, channel, home, ttl, claim, and what
--                                       the kind needs; nil: the line is of another kind
--   verdict(pool, waiter, alive, asks)  'grant'; 'drop': it leaves the line, and is not granted;
--                                       'pass': it keeps its place, and the next one is looked at;
--                                       'stop': no other waiter is granted before it
--   fence(pool)                         the next fence, as text
--   take(pool, waiter, fence, lease_ms) writes the grant
--   dropped(pool, waiter)               if there: notes that a waiter left the line without a grant

-- Grants to the live waiters at the head of the line, as long as the kind lets it, and notifies them.
-- `me` is the waiter that asks: the reply notifies it. A waiter of another client than the one that
-- asks (`near`) may be frozen: its lease starts short.
local function grant_line(pool, kind, me, near)
  local queue, passed = KEYS[pool.base + 2], 0
  while not pool.full do
    local head = call('ZRANGE', queue, passed, passed, 'WITHSCORES')
    if not head[1] then return end
    pool.clock = pool.clock or clock()
    local waiter = kind.waiter_of(head[1])
    if not waiter then return end
    local asks = waiter.id == me
    local alive = asks or lives(pool.base, tonumber(pool.clock), waiter.home, tonumber(head[2]))
    local verdict = kind.verdict(pool, waiter, alive, asks)
    if verdict == 'stop' then return end
    if verdict == 'pass' then
      passed = passed + 1
    else
      call('ZREM', queue, head[1])
      local fence = verdict == 'grant' and kind.fence(pool)
      local lease_ms = (asks or waiter.home == near) and waiter.ttl or waiter.claim
      if fence and (asks or send_grant(waiter.channel, waiter.id, fence, pool.clock, lease_ms)) then
        kind.take(pool, waiter, fence, tonumber(lease_ms))
      elseif kind.dropped then
        kind.dropped(pool, waiter)
      end
    end
  end
end
