-- Answers a client that recalled a lease, or asked about it: is it in use? Also asks a client who waits
-- inside it, and answers that. Changes nothing.
--
-- KEYS  lock
-- ARGV  1 channel   2 waiter, and a text   3 'busy', 'idle', 'inside?' or 'inside'
-- Reply 1 if it heard, 0 if no client did
-- include: _channel

return publish(ARGV[1], ARGV[3] .. ' ' .. ARGV[2]) and 1 or 0
