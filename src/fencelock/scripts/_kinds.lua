-- Fragment: what a name may hold, in the words of an error; by the type of its key, or by its kind.

local KINDS = {string = 'a lock', semaphore = 'a semaphore', rwlock = 'a reader/writer lock',
  event = 'an event', latch = 'a latch', barrier = 'a barrier'}
