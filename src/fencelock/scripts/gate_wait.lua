-- Tells waiters whether an event is set or a latch is open, and keeps those on the list who wait on.
-- One call for all waiters of a client (I6). It also takes one off the list that waits no more (I9).
--
-- KEYS  state watch   (see _signal.lua)
-- ARGV  1 kind   2 how long the state is kept unused, ms   3 the count that a latch begins with, or ''
--       4 wait, or leave
--       then per waiter: channel, or '' if it wants no notification; the generation it waits for,
--       or ''; and without a generation for how long it has asked, in microseconds
--       The first one asks; the others are not put on the list anew: they may have left it.
-- Reply per waiter {1 when it need not wait, the generation it waits for, 1 when it is on the list}
-- include: _signal
-- include: _latch

local kind = ARGV[1]
local trouble = refused(kind)
if trouble then return trouble end
local stays, of = ARGV[4] == 'wait', field('of')
local differs = of and of ~= ARGV[3]
if differs and stays and not idle(false) then return other_count(ARGV[3]) end

if stays and not field('gen') then
  call('HSET', KEYS[1], 'kind', kind, 'gen', whole(now), 'open', 0)
end
if kind == 'latch' and stays and (not of or differs) then close(ARGV[3]) end
call('PEXPIRE', KEYS[1], ARGV[2])

-- It passes when its generation has ended, even if the state was taken back since. Whose question
-- was lost may have been on the list before: then what counts is the time since it asked first.
local open, gen, ended, at = number('open'), number('gen'), number('ended'), number('at')
local function passes(since, asked_us)
  if open == 1 then return true end
  if since ~= '' then return ended >= tonumber(since) end
  return asked_us > 0 and at > 0 and at >= now - asked_us
end

local function list(channel, asks)
  if channel == '' then return 1 end
  if not stays then return call('ZREM', KEYS[2], channel) end
  if not asks and not call('ZSCORE', KEYS[2], channel) then return 0 end
  call('ZADD', KEYS[2], whole(now), channel)
  return 1
end

local replies = {}
for i = 5, #ARGV, 3 do
  local passed, listed = passes(ARGV[i + 1], tonumber(ARGV[i + 2])), 0
  if not passed or not stays then listed = list(ARGV[i], i == 5) end
  replies[#replies + 1] = {passed and 1 or 0, whole(gen), listed}
end
if stays then
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole(now - FORGET_US))
  call('PEXPIRE', KEYS[2], WATCH_MS)
end
return replies
