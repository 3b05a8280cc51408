"""Objects built on locks, and states that many clients wait for.

- ``once`` is a lock, and a result in one more key. A multi is one script if all of its locks are
  free. An election is a lock whose waiters have names.
- A semaphore and a reader/writer lock are one thing: holder ids by the end of their leases, their
  permits, and a limit.
- Events, latches and barriers are states without a lease: a hash with a *generation*, and the list
  of channels to notify when it ends.
"""
