-- Forgets the result of one run of `once`. A repeated call forgets no later run's result (I4).
--
-- KEYS  once   (see once_finish.lua)
-- ARGV  1 fence of the run
-- Reply 1 forgotten   0 there is no result, or that of another run

local kept = string.match(redis.call('GET', KEYS[1]) or '', '^%d+')
return kept == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
