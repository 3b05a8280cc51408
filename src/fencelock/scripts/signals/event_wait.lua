-- Returns which waiters may pass: those of an event that is set, or of a latch that is open. The others
-- stay on the list, or leave it when they gave up (I9). One call for all waiters of a client (I6).
--
-- KEYS  state watch ids past   (see _signal.lua)
-- ARGV  1 kind   2 how long the state is kept unused, ms   3 the count that a latch begins with, or ''
--       4 wait, or leave
--       then per waiter: channel, or '' if it wants no notification; the generation it waits for,
--       or ''; and without a generation for how long it has asked, in microseconds
--       The first waiter asks; the others are not added to the list again: they may have left it.
-- Reply per waiter {1 when it passes, the generation it waits for, 1 when it is on the list}

-- The usual case, before any function is built: one waiter asks, and the event is set, or the latch open.
local kind, call = ARGV[1], redis.call
if ARGV[4] == 'wait' and #ARGV == 7 and redis.pcall('HGET', KEYS[1], 'open') == '1'
  and call('HGET', KEYS[1], 'kind') == kind
  and (kind == 'event' or call('HGET', KEYS[1], 'of') == ARGV[3]) then
  local gen = call('HGET', KEYS[1], 'gen')
  call('PEXPIRE', KEYS[1], ARGV[2])
  return {{1, gen, 0}}
end

-- include: signals/_signal
-- include: signals/_latch

local refusal, stays = wrong_kind(kind), ARGV[4] == 'wait'
local known = KEYS[not refusal and field('gen') and 1 or 4]
local ended, at = tonumber(call('HGET', known, 'ended') or 0), tonumber(call('HGET', known, 'at') or 0)

-- The end of a generation stays true, whatever the name holds since.
local function has_ended(since) return since ~= '' and ended >= tonumber(since) end

local late, present = {}, refusal and '0' or text(number('gen'))
for i = 5, #ARGV, 3 do
  if stays and has_ended(ARGV[i + 1]) then late[#late + 1] = {1, present, 0} end
end
if #late == (#ARGV - 4) / 3 then return late end

if refusal then return refusal end
local of = field('of')
local differs = of and of ~= ARGV[3]
if differs and stays and not may_change(false) then return other_count(ARGV[3]) end

if stays and not field('gen') then begin_state(kind) end
if kind == 'latch' and stays and (not of or differs) then close(ARGV[3]) end
call('PEXPIRE', KEYS[1], ARGV[2])

-- A waiter passes when its generation has ended, even if the event was cleared since. A waiter whose
-- request was lost may have been on the list before: then the time since its first request counts.
local open, gen = number('open'), number('gen')
local function passes(since, asked_us)
  if open == 1 then return true end
  if since ~= '' then return has_ended(since) end
  return asked_us > 0 and at > 0 and at >= now - asked_us
end

local function list(channel, asks)
  if channel == '' then return 1 end
  if not stays then return call('ZREM', KEYS[2], channel) end
  if not asks and not call('ZSCORE', KEYS[2], channel) then return 0 end
  call('ZADD', KEYS[2], text(now), channel)
  return 1
end

local replies = {}
for i = 5, #ARGV, 3 do
  local passed, listed = passes(ARGV[i + 1], tonumber(ARGV[i + 2])), 0
  if not passed or not stays then listed = list(ARGV[i], i == 5) end
  replies[#replies + 1] = {passed and 1 or 0, text(gen), listed}
end
if stays then
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now - FORGET_US))
  call('PEXPIRE', KEYS[2], WAITERS_MS)
end
return replies
