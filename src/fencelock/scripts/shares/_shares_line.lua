-- Fragment: the line of what several clients may hold at once. Included after _shares.lua by each script
-- that grants to waiters.
--
-- It guards I5 (first come, first served: no request overtakes the head of the line) and I7 (dead
-- waiters are skipped).

-- include: _line
-- include: _listens
-- include: lock/_grant

-- A script that grants to more waiters than this would hold up all other clients: the next waiter
-- asks again, and its request goes on.
local GRANTS_MAX = 500
-- This many waiters whose connection is lost keep their places while others are granted.
local UNHEARD_MAX = 100

-- Makes a waiter ask again; returns false if its process is gone. What is open is decided then.
local function ask_again(id, channel) return publish(channel, 'again ' .. id) end

-- The first live waiter that does not fit holds up all others, as long as it can ever fit. A waiter
-- whose connection is lost holds up none. It keeps its place until it is taken for dead or its turn
-- comes, as in a lock's line: it may only be connecting again.
-- `s.held_up` says that a live waiter is still in line.
local function wait_for_room(s, permits, channel, asks)
  if asks or listens(channel) then
    s.held_up, s.lacking = true, s.taken + permits - s.limit
    return 'stop'
  end
  s.unheard = s.unheard + 1
  if s.unheard <= UNHEARD_MAX then return 'pass' end
  return s.taken >= s.limit and 'stop' or 'drop'  -- when all is taken, no later waiter fits either
end

local SHARES = {
  entry = '<share_entry: waiter holder channel @ttl handoff_ttl permits client> ',
  verdict = function(s, permits, id, channel, asks)
    if permits > s.limit then  -- the limit was lowered: it asks again, and is refused
      ask_again(id, channel)
      return 'drop'
    end
    if s.taken + permits > s.limit then return wait_for_room(s, permits, channel, asks) end
    if s.granted < GRANTS_MAX then return 'grant' end
    if not ask_again(id, channel) then return 'drop' end
    s.held_up = true
    return 'stop'
  end,
  fence = function(s) return text(fence_after(s)) end,
  take = function(s, permits, id, holder, options, _, lease_ms)
    take(s, holder, tonumber(permits), options, tonumber(lease_ms))
    s.granted = s.granted + 1
    if id == s.me then s.mine = s.fence end
  end,
}

-- Grants to each live waiter at the head of the line that fits; `me` and `near` are those of
-- grant_line. Returns the fence for `me`, or nil.
local function serve(s, me, near)
  s.me, s.granted, s.unheard = me, 0, 0
  grant_line(s, SHARES, me, near)
  return s.mine
end
