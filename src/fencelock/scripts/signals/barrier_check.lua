-- Keeps the heartbeat of a client's parties, finds dead ones, and returns the outcome for each (I6, I7).
-- It also removes a party that leaves: after a timeout, which breaks the barrier, or for another reason.
--
-- KEYS  state watch ids places   (see _barrier.lua)
-- ARGV  1 to 3: see _barrier.lua
--       4 look; timeout: its time is up; leave: it does not break the barrier; abort: it leaves while
--         its action runs
--       then per party: waiter, channel, and the generation for whose end it waits without a place
--       in it, or ''. The first one asks; the heartbeats of the others count only if they still wait.
-- Reply per party {word, generation, index or reason}, as in barrier_arrive.lua; again: arrive again
-- include: signals/_signal
-- include: signals/_barrier

-- The number of parties may be another one: parties that were here before still get their outcome.
local refusal = wrong_kind('barrier')
if refusal then return refusal end
-- include: _when_full
local looks, begun = ARGV[4] == 'look', field('gen')

if begun and looks then note_heartbeat() end
local doubted = begun and any_in_doubt()
for i = 5, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  local member, word = waiter .. ' ' .. ARGV[i + 1], reply_to(waiter)[1]
  local waits = word == 'wait'
  if without ~= '' then waits = begun and not outcome(without) end
  if looks and waits and (i == 5 or call('ZSCORE', KEYS[2], member)) then
    call('ZADD', KEYS[2], text(now), member)
  end
  if looks and word == 'act' then call('HSET', KEYS[1], 'acted', text(now)) end
end
remove_dead()
if doubted and not any_in_doubt() and field('gen') then recall() end

local function leave(waiter, member)
  call('ZREM', KEYS[2], member)
  local place = reply_to(waiter)
  remember_id(waiter)  -- if its request to arrive is late, it must not count
  if place[1] ~= 'wait' and place[1] ~= 'act' then return end
  if ARGV[4] == 'timeout' then return break_up('timeout') end
  if place[1] == 'act' then
    if ARGV[4] == 'abort' then return break_up('abort') end
    call('HDEL', KEYS[1], 'acting')  -- its action never began: as if it had not arrived
    recall()
  elseif field('acting') then
    return  -- all have arrived: a party that leaves now still counts
  end
  call('HDEL', KEYS[4], waiter)
  call('HSET', KEYS[1], 'count', number('count') - 1, 'free', (field('free') or '') .. place[3] .. ' ')
end

local replies = {}
for i = 5, #ARGV, 3 do
  local waiter, without = ARGV[i], ARGV[i + 2]
  if not looks and begun then leave(waiter, waiter .. ' ' .. ARGV[i + 1]) end
  if without == '' then
    replies[#replies + 1] = reply_to(waiter)
  elseif looks and begun and not outcome(without) and is_full() then
    replies[#replies + 1] = {'full', without, ''}
  else
    replies[#replies + 1] = {looks and 'again' or 'broken', without, 'timeout'}
  end
end
keep_keys()
return replies
