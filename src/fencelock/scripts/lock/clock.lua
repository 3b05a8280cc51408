-- Tells the server's clock to a client that is about to shorten a lease: see renew.lua.
--
-- KEYS  lock, which only says whose clock is meant
-- Reply microseconds

-- include: _now
return now
