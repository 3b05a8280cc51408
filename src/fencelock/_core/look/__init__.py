"""What people ask: who holds and who waits, now and before. The engine works without it."""

from typing import Final

# How many waiters and holders of a lock are listed.
LISTED: Final = 100
