"""Mutants that no test kills, and why each does no harm.

The key is the mutant's: file, line before, line after. A reason is looked at by a person, once.
"""

REASONS: dict[str, str] = {
    "_core/book.py: return [number for number in range(first, last + 1) if number in self._buckets]"
    " → return [number for number in range(first, last + 2) if number in self._buckets]": (
        "One bucket more is looked at. Nothing in it is due yet, and both callers check that."
    ),
    "_core/watch.py: port: Port, watcher: Watcher, give_up_at: float, *, listen: bool = True"
    " → port: Port, watcher: Watcher, give_up_at: float, *, listen: bool = False": (
        "The default is for a waiter that asks again, which listens already. If it loses its"
        " connection at this very moment, its next look, two seconds later, opens one that listens."
    ),
    "scripts/_shares.lua: local ENDS_SUMMED = 10 → local ENDS_SUMMED = 9": (
        "How many leases are looked at is tuning: the reply is a lower bound either way."
    ),
    "scripts/_shares.lua: local ends, lacking, last = call('ZRANGE', KEYS[s.base], 0,"
    " ENDS_SUMMED - 1, 'WITHSCORES'), → local ends, lacking, last = call('ZRANGE', KEYS[s.base], 0,"
    " ENDS_SUMMED + 1, 'WITHSCORES'),": (
        "How many leases are looked at is tuning: the reply is a lower bound either way."
    ),
}
