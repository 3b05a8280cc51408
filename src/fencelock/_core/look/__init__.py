"""What people ask: who holds and who waits, now and before. The engine works without it."""

from fencelock._runtime.typed import Final

# How many waiters and holders of a lock are listed.
LISTED: Final = 100
