-- Releases permits: to the next waiters that fit, or to none. Only their holder may.
--
-- KEYS  lock record queue alive holds revoked   (see _shares.lua)
-- ARGV  1 holder   2 home   3 how many permits it keeps
-- Reply 1               released, or it keeps no more than that
--       {-1, reason}    not a holder: the operator's reason when it was revoked, else nil
-- include: shares/_shares

local holder = ARGV[1]
local s = open(1)
local held = s and s.kind and call('HGET', KEYS[5], holder)
if held then give_back(s, holder, tonumber(ARGV[3]), held) end
if s and s.kind then
  if call('EXISTS', KEYS[3]) == 1 then
-- include: shares/_shares_line
    serve(s, '', ARGV[2])
  end
  save(s)
end
if held then return 1 end
local revoked, reason = string.match(call('GET', KEYS[6]) or '', '^(%S+) (.*)$')
return {-1, revoked and string.find(revoked, holder, 1, true) and reason or false}
