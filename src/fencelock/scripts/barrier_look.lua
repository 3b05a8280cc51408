-- Proves that a client's parties live, finds dead ones, and tells what became of each (I6, I7). It
-- also takes out one that goes: with a timeout, which breaks the barrier, or for another reason.
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua
--       4 look; timeout: its time is up; leave: it goes quietly; abort: it goes while its action runs
--       then per party: waiter, channel, and the generation for whose end it waits without a place
--       in it, or ''. The first one asks; the others are proved only if they still wait.
-- Reply per party {word, generation, index or reason}, as barrier_arrive.lua; again: come anew
-- include: _signal
-- include: _barrier

-- It may have other parties if those that ask were here before: they get to know what became of them.
local trouble = refused('barrier')
if trouble then return trouble end
local looks, begun = ARGV[4] == 'look', field('gen')

if begun and looks then hear() end
local doubted = begun and in_doubt()
for i = 5, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  local member, word = waiter .. ' ' .. ARGV[i + 1], told(waiter)[1]
  local waits = word == 'wait'
  if without ~= '' then waits = begun and not outcome(without) end
  if looks and waits and (i == 5 or call('ZSCORE', KEYS[2], member)) then
    call('ZADD', KEYS[2], whole(now), member)
  end
  if looks and word == 'act' then call('HSET', KEYS[1], 'acted', whole(now)) end
end
bury()
if doubted and not in_doubt() and field('gen') then recall() end

local function leave(waiter, member)
  call('ZREM', KEYS[2], member)
  local place = told(waiter)
  note(waiter)  -- if it never arrived, it must not arrive any more
  if place[1] ~= 'wait' and place[1] ~= 'act' then return end
  if ARGV[4] == 'timeout' then return break_up('timeout') end
  if place[1] == 'act' then
    if ARGV[4] == 'abort' then return break_up('abort') end
    call('HDEL', KEYS[1], 'acting')  -- its action never began: as if it had not come
    recall()
  elseif field('acting') then
    return  -- all have come: a party that goes now has been there
  end
  call('HDEL', KEYS[4], waiter)
  call('HSET', KEYS[1], 'count', number('count') - 1, 'free', (field('free') or '') .. place[3] .. ' ')
end

local replies = {}
for i = 5, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  if not looks and begun then leave(waiter, waiter .. ' ' .. ARGV[i + 1]) end
  if without == '' then
    replies[#replies + 1] = told(waiter)
  elseif looks and begun and not outcome(without) and shut() then
    replies[#replies + 1] = {'full', without, ''}
  else
    replies[#replies + 1] = {looks and 'again' or 'broken', without, 'timeout'}
  end
end
keep()
return replies
