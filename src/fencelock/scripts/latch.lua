-- Counts a latch down, closes it again, or looks at it. Idempotent per request id (I4).
--
-- KEYS  state watch ids   (see _signal.lua)
-- ARGV  1 count_down, reset or look   2 how long the latch is kept unused, ms   3 request id
--       4 the count it begins with   5 by how much it is counted down
-- Reply the count that is left; 0: open
-- include: _signal

local trouble = refused('latch')
if trouble then return trouble end

local of = field('of')
if of and of ~= ARGV[4] then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a latch of ' .. of .. ', not of ' .. ARGV[4])
end
if ARGV[1] == 'look' then
  call('PEXPIRE', KEYS[1], ARGV[2])
  return of and number('left') or tonumber(ARGV[4])
end

if not repeated(KEYS[3], ARGV[3]) then
  if not of then
    call('HSET', KEYS[1], 'kind', 'latch', 'gen', whole(now), 'open', 0, 'of', ARGV[4], 'left', ARGV[4])
  end
  if ARGV[1] == 'reset' then
    call('HSET', KEYS[1], 'open', 0, 'left', ARGV[4])
  elseif number('open') == 0 then
    local left = math.max(0, number('left') - tonumber(ARGV[5]))
    call('HSET', KEYS[1], 'left', whole(left))
    if left == 0 then
      call('HSET', KEYS[1], 'open', 1)
      tell('open')
    end
  end
end
call('PEXPIRE', KEYS[1], ARGV[2])
return number('left')
