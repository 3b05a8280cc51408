-- Fragment: the clock and fences. It is apart from _lock.lua, so that a call that finds no waiter need
-- not build the rest: a script builds its functions at each call.
--
-- It guards I3 (fences grow). Fences and the clock stay texts: turning a number into text costs as much
-- as a read.

-- constants: RECORD_MS

local call = redis.call

local function clock()
-- include: _now
  return now
end

-- include: _text

local function next_fence(last, now)
-- include: _next_fence
  return fence
end
