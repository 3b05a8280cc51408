-- Proves that a client's parties live, finds dead ones, and tells what became of each (I6, I7). It
-- also takes out one that goes: with a timeout, which breaks the barrier, or for another reason.
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 parties   2 how long the barrier is kept unused, ms   3 look, timeout or leave
--       then per party: waiter, channel, and the generation for whose end it waits without a place
--       in it, or ''. The first one asks; the others are proved only if they still wait.
-- Reply per party {word, generation, index or reason}, as barrier_arrive.lua; again: come anew
-- include: _signal
-- include: _barrier

local trouble = unfit(ARGV[1])
if trouble then return trouble end
local looks = ARGV[3] == 'look'

for i = 4, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  local member = waiter .. ' ' .. ARGV[i + 1]
  local waits = without ~= '' or told(waiter)[1] == 'wait'
  if without ~= '' and outcome(without) then waits = false end
  if looks and waits and (i == 4 or call('ZSCORE', KEYS[2], member)) then
    call('ZADD', KEYS[2], whole(now), member)
  end
end
bury()

local function leave(waiter, member)
  call('ZREM', KEYS[2], member)
  local place = told(waiter)
  note(waiter)  -- if it never arrived, it shall not any more
  if place[1] == 'act' then return break_up('abort') end
  if place[1] ~= 'wait' then return end
  if ARGV[3] == 'timeout' then return break_up('timeout') end
  if field('acting') then return end  -- all have come: who goes now has been there
  call('HDEL', KEYS[4], waiter)
  call('HSET', KEYS[1], 'count', number('count') - 1, 'free', (field('free') or '') .. place[3] .. ' ')
end

local replies = {}
for i = 4, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  if not looks and field('gen') then leave(waiter, waiter .. ' ' .. ARGV[i + 1]) end
  if without == '' then
    replies[#replies + 1] = told(waiter)
  elseif looks and not outcome(without) then
    replies[#replies + 1] = {'full', without, ''}
  else
    replies[#replies + 1] = {looks and 'again' or 'broken', without, 'timeout'}
  end
end
keep(ARGV[2])
return replies
