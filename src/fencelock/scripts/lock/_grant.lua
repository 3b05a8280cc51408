-- Fragment: who is granted next. This rule serves locks (_lock.lua) and what several clients may hold
-- at once (_shares.lua). Included by these two, after _fence.lua and _line.lua.
--
-- It guards I1 (one script decides), I5 (first come, first served; a release hands over) and I7 (dead
-- waiters are skipped).
--
-- A `pool` is what a name has to give: `base` is the index of the name's first key, and `clock` the
-- server's clock as text where it is known. What differs between the kinds is in `kind`:
--   entry      the pattern of a waiter entry: id, holder, channel, where the options begin, ttl, handoff_ttl,
--              what it asks for (`share`), client channel. An entry of another form is of another kind
--   pops       true: no waiter keeps its place and is passed, so each is taken out when it is looked
--              at. That is one command instead of two
--   verdict(pool, share, id, channel, asks)
--              if there, for a live waiter: 'grant'; 'drop': it leaves the line, and is not granted;
--              'pass': it keeps its place, and the next one is looked at; 'stop': no other waiter is
--              granted before it
--   fence(pool, now)
--              the next fence, as text
--   take(pool, share, id, holder, options, fence, lease_ms)
--              writes the grant; returns true when there is no more to give
-- A waiter is passed on as its parts: a table for each costs more than the rest of a grant.

-- Grants to the live waiters at the head of the line, as long as the kind lets it, and notifies them.
-- `me` is the waiter that asks: the reply notifies it. A waiter of another client than the one that
-- asks (`near`) may be frozen: its lease starts short.
-- Returns the waiter that was granted the last there is to give, and its fence, or nil.
local function grant_line(pool, kind, me, near)
  local base, pops, now, passed = pool.base, kind.pops, pool.clock, 0
  local queue, verdict_of = KEYS[base + 2], kind.verdict
  while true do
    local head = pops and call('ZPOPMIN', queue) or call('ZRANGE', queue, passed, passed, 'WITHSCORES')
    local entry = head[1]
    if not entry then return end
    now = now or clock()
    local id, holder, channel, at, ttl, handoff_ttl, share, client_channel = string.match(entry, kind.entry)
    if not id then
      if pops then call('ZADD', queue, head[2], entry) end
      return
    end
    local asks, verdict = id == me, 'drop'
    if asks or lives(base, tonumber(now), client_channel, tonumber(head[2])) then
      verdict = verdict_of and verdict_of(pool, tonumber(share), id, channel, asks) or 'grant'
    end
    if verdict == 'stop' then return end
    if verdict == 'pass' then
      passed = passed + 1
    else
      if not pops then call('ZREM', queue, entry) end
      local fence = verdict == 'grant' and kind.fence(pool, now)
      local lease_ms = (asks or client_channel == near) and ttl or handoff_ttl
      if fence and (asks or send_grant(channel, id, fence, now, lease_ms))
        and kind.take(pool, share, id, holder, string.sub(entry, at), fence, lease_ms) then
        return id, fence
      end
    end
  end
end
