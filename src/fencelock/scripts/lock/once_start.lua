-- Begins a run of `once`: acquires the lock or a place in line for it, as acquire.lua does, unless the
-- run is done. Idempotent per holder id (I4).
--
-- KEYS  lock record queue alive holds   (see _lock.lua)   once (see once_finish.lua)
-- ARGV  those of acquire.lua, without the last
-- Reply that of acquire.lua; fence 0: the run is done, and nothing was acquired

if redis.call('EXISTS', KEYS[6]) == 1 then return '0' end

-- include: lock/acquire
