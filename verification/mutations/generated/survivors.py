"""Mutants that no test kills, and why each does no harm.

The key is the mutant's: file, line before, line after. A reason is looked at by a person, once.
"""

REASONS: dict[str, str] = {
    "_core/lock/renewal_schedule.py: return [number for number in range(first, last + 1) if number"
    " in self._buckets]"
    " → return [number for number in range(first, last + 2) if number in self._buckets]": (
        "One bucket more is looked at. Nothing in it is due yet, and both callers check that."
    ),
    "_core/objects/state_wait.py: port: Port, watcher: StateWaiter, give_up_at: float, *, listen:"
    " bool = True"
    " → port: Port, watcher: StateWaiter, give_up_at: float, *, listen: bool = False": (
        "The default is for a waiter that asks again, which listens already. If it loses its"
        " connection at this very moment, its next look, two seconds later, opens one that listens."
    ),
    "_core/objects/state_wait.py: if watcher.began and watcher.channel:"
    " → if watcher.began or watcher.channel:": (
        "One that did not begin, or is on no list, leaves all the same. To leave is harmless where"
        " nothing was asked, and it costs one command at the end of a wait that failed."
    ),
    "_core/objects/semaphore_rwlock.py: return described(kind, limit, await ask(port, SHARES_SHOW,"
    " keys.grant, (-1,),"
    " until)) → return described(kind, limit, await ask(port, SHARES_SHOW, keys.grant, (- 2,),"
    " until))": "Every number below 0 means the same to the script.",
    "_core/lock/waiting.py: STAGGER_SECONDS = 0.02 → STAGGER_SECONDS = 1.02": (
        "By how much those behind the head of the line look later is tuning: it delays nobody whose"
        " turn it is, and STAGGER_MAX, one second, is the most."
    ),
    "_io/connect.py: sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)"
    " → sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 2)": (
        "Every number but 0 turns the option on."
    ),
    "_io/master_connection_blocking.py: def answer(self, until: float, *, confirms: bool = False)"
    " -> Reply: → def answer(self, until: float, /, confirms: bool = False) -> Reply:": (
        "Every caller gives `confirms` by name, which it may still."
    ),
    'cli/commands/inspect.py: "ended": round(done.ended, 3), → "ended": round(done.ended, 4),': (
        "One digit more of a second is as right."
    ),
    "options.py: def count(what: str, value: Any, *, least: int = 1) -> int:"
    " → def count(what: str, value: Any, /, least: int = 1) -> int:": (
        "Every caller gives `least` by name, which it may still."
    ),
    "scripts/lock/acquire.lua: if entry ~= '' and call('EXISTS', KEYS[3]) == 1 then"
    " enqueue(KEYS[3],"
    " entry, now) end"
    " → if entry ~= '' and call('EXISTS', KEYS[3]) ~= 1 then enqueue(KEYS[3], entry, now)"
    " end": (
        "Who asks is lined up later, if another is granted. If nobody in line lives, it gets the"
        " lock itself, with the same lease and fence."
    ),
    "scripts/shares/_shares.lua: local ENDS_SUMMED = 10 → local ENDS_SUMMED = 9": (
        "How many leases are looked at is tuning: the reply is a lower bound either way."
    ),
    "scripts/shares/_shares.lua: local ends, lacking, last = call('ZRANGE', KEYS[s.base], 0,"
    " ENDS_SUMMED - 1, 'WITHSCORES'), → local ends, lacking, last = call('ZRANGE', KEYS[s.base], 0,"
    " ENDS_SUMMED + 1, 'WITHSCORES'),": (
        "How many leases are looked at is tuning: the reply is a lower bound either way."
    ),
    "_core/lock/waiting.py: self.foreign: int = 0  # lines with a foreign holder, when they were"
    " last"
    " counted → self.foreign: int = 1  # lines with a foreign holder, when they were last"
    " counted": ("It is counted before each look, and read only when the look is answered."),
    "_core/lock/by_slot.py: until = min(asked_at + min(CALL_SECONDS_MAX, shortest / 3), ends)"
    " → until = min(asked_at + min(CALL_SECONDS_MAX, shortest / 4), ends)": (
        "How long one renewal awaits its answer is tuning: a quarter of a short lease is within the"
        " third, and leaves more time for the next attempt."
    ),
    "_core/lock/renew_request.py: def question(holds: Sequence[Hold], ttls: Sequence[float], *,"
    " shortens: bool"
    " = False) -> Request: → def question(holds: Sequence[Hold], ttls: Sequence[float], /,"
    " shortens: bool = False) -> Request:": (
        "Every caller gives `shortens` by name, which it may still."
    ),
    "_core/lock/renew.py: port.book.clear() → pass": (
        "Each lease is taken out again one by one, just before its holder is notified. A renewal"
        " that begins in between ends like one that was under way already: it brings back no lease"
        " that is lost."
    ),
    "scripts/lock/election_watch.lua: if ARGV[1] then → if ARGV[2] then": (
        "Waiter and channel come together: both are given, or neither is."
    ),
    "scripts/shares/_shares.lua: return last and math.max(0, math.ceil((last - s.now) / 1000)) or"
    " -1"
    " → return last and math.max(0, math.ceil((last - s.now) / 1000)) or -2": (
        "Both readers, `Line.postpone` and `_left` of a quorum, look only at whether it is below 0."
    ),
    "scripts/lock/renew.lua: return not shortens and call('PTTL', KEYS[k]) >= tonumber(ttl)"
    " → return not shortens and call('PTTL', KEYS[k]) > tonumber(ttl)": (
        "A lease that lasts exactly as long as the ttl is set to the same end again."
    ),
    "scripts/lock/acquire.lua: if entry ~= '' and call('EXISTS', KEYS[3]) == 1 then"
    " enqueue(KEYS[3],"
    " entry, now) end"
    " → if entry ~= '' and call('EXISTS', KEYS[3]) == 0 then enqueue(KEYS[3], entry, now)"
    " end": (
        "As for `~= 1`, which says the same of one key. With no line at all, the client that asks"
        " lines up alone and is granted at once, with the same lease and fence."
    ),
    "scripts/signals/_condition.lua: call('PEXPIRE', KEYS[8], WAITERS_MS + math.max(0, ahead))"
    " → call('PEXPIRE', KEYS[8], WAITERS_MS + math.max(-1, ahead))": (
        "The key lasts one millisecond less only when its last entry is at least one millisecond"
        " old. So each entry is remembered for its 60 s all the same."
    ),
    "_core/port.py:  → def apart(self) -> Apart | None:": (
        "A protocol says what ports have; its own body never runs."
    ),
    "_core/lock/show.py: permits: int = 0  # that it holds or waits for, of a semaphore or"
    " reader/writer lock → permits: int = 1  # that it holds or waits for, of a semaphore or"
    " reader/writer lock": (
        "Holders and waiters of semaphores and reader/writer locks are given their own number, and"
        " those of other locks are shown without one."
    ),
}
