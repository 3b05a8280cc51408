"""Faults sown on purpose into what many may hold at once."""

from math import inf

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, nothing, script
from tests.flows.worlds import shares as worlds

NEXT_GOES_ON = """if s.granted < GRANTS_MAX then return 'grant' end
    if not ask_again(id, channel) then return 'drop' end"""

SEEDS = (
    seed(
        "a grant beyond the limit",
        script("shares_acquire", "return s.taken + permits <= s.limit", "return true"),
        worlds.THREE,
        "I1",
        daily="semaphore",
    ),
    seed(
        "the usual grant, beyond the limit",
        script("shares_acquire", "taken + permits <= tonumber(limit)", "true"),
        worlds.THREE,
        "I1",
    ),
    seed(
        "the usual grant, before the line",
        script("shares_acquire", "call('EXISTS', KEYS[1], KEYS[3])", "call('EXISTS', KEYS[1])"),
        worlds.MIXED,
        "I1 I5 I6 I9",
    ),
    seed(
        "the usual grant, once more for a request that is repeated",
        script("shares_acquire", "and not call('ZSCORE', KEYS[1], holder) then", "then"),
        worlds.THREE.under(lost=1),
        "I1 I4",
    ),
    seed(
        "the usual release, past the line",
        script(
            "shares_release",
            "if ARGV[3] == '0' and call('EXISTS', KEYS[3]) == 0 then",
            "if ARGV[3] == '0' then",
        ),
        worlds.TWO,
        "I5",
    ),
    seed(
        "the usual release of one reader that ends the leases of all",
        script("shares_release", "first[1] == holder and not first[3] and", "first[1] and"),
        worlds.READERS,
        "I1",
    ),
    seed(
        "an ended lease whose permits stay taken",
        script("shares_heartbeat", "s.taken = s.taken - permits_of(s, ended[i])", ""),
        worlds.ONE_ENDS,
        "I1 I6",
    ),
    seed(
        "a counter that a repeated request moves",
        script("shares_acquire", "if kept then return renew_held() end", ""),
        worlds.MIXED.under(lost=1),
        "I1 I3 I4",
    ),
    seed(
        "a small request that overtakes",
        script("shares_acquire", "- s.limit\n    return 'stop'", "- s.limit\n    return 'pass'"),
        worlds.MIXED,
        "I5 I9 I6",
    ),
    seed(
        "a try that overtakes the line",
        script("shares_acquire", "fits() and not s.held_up", "fits()"),
        worlds.MIXED_TRY,
        "I5",
    ),
    seed(
        "a release that grants to one only",
        script("shares_release", "local GRANTS_MAX = 500", "local GRANTS_MAX = 1"),
        worlds.READERS,
        "I5",
        daily="rwlock",
    ),
    seed(
        "a script that stops granting and leaves the rest waiting",
        script("shares_release", NEXT_GOES_ON, "if s.granted == 0 then return 'grant' end"),
        worlds.PIECEMEAL,
        "I6",
    ),
    seed(
        "a release that grants to no waiter",
        script("shares_release", "serve(s, '', ARGV[2])", ""),
        worlds.TWO,
        "I5",
    ),
    seed(
        "a raised limit that grants to no waiter",
        script("shares_limit", "serve(s, '', ARGV[4])", ""),
        worlds.CHANGED,
        "I5",
    ),
    seed(
        "a waiter that leaves, without a grant to the next",
        script("shares_abandon", "serve(s, '', ARGV[3])", ""),
        worlds.IMPATIENT_SIDES,
        "I5",
    ),
    seed(
        "a dead waiter at the head that holds up all others",
        script(
            "shares_acquire", "if count then return count > 0 end", "if count then return true end"
        ),
        worlds.DEAD_HEAD.under(crash=1),
        "I5",
    ),
    seed(
        "a place in line that is lost with its connection",
        script("shares_acquire", "local UNHEARD_MAX = 100", "local UNHEARD_MAX = 0"),
        worlds.IN_LINE.under(cut=1),
        "I5",
    ),
    seed(
        "an operator's request that takes the permits of the next holders, too",
        script("shares_break", "if call('ZSCORE', KEYS[4], 'broke ' .. ARGV[4])", "if false"),
        worlds.BROKEN.under(lost=1),
        "I4",
    ),
    seed(
        "a change of the limit that comes again, late, and undoes the next one",
        script("shares_limit", "ARGV[5]) == 1 then", "ARGV[5]) then"),
        worlds.SET_TWICE.under(zombie=1),
        "I4",
    ),
    seed(
        "a limit that locks out handles with the limit before it",
        script("shares_limit", "if not is_named(s, s.limit) then", "if false then"),
        worlds.CHANGED_TWICE,
        "I12",
    ),
    seed(
        "a renewal for less than was asked for",
        script("shares_renew", "now + ttl * 1000", "now + ttl * 999"),
        worlds.BY_HAND,
        "I1 I2",
    ),
    seed(
        "a fixed lease that a handoff cuts short",
        Fault("terms.handoff_ttl", lambda _real, self: min(self.ttl, HANDOFF_TTL_SECONDS)),
        worlds.UNLIKE,
        "I2 L",
    ),
    seed(
        "a longer lease that ends with the first one",
        script("shares_acquire", "if lasts < tonumber(ttl) then", "if lasts == 0 then"),
        worlds.UNLIKE_BESIDE,
        "I1 I2 I4 L",
    ),
    seed(
        "a dead waiter that is still granted",
        script(
            "shares_release",
            "if listeners(channel) == 0 then return false end\n  return publish(",
            "return true, publish(",
        ),
        worlds.TWO.under(crash=1),
        "I7",
    ),
    seed(
        "a renewal that does not check the holder",
        script(
            "shares_renew",
            "if type(ends) == 'string' and tonumber(ends) > now then",
            "if type(ends) ~= 'string' then ends = now end\n  if true then",
        ),
        worlds.LONG.under(late=1),
        "I1 I9 I11",
    ),
    seed(
        "a part that is released twice when the request is repeated",
        script("shares_release", "math.max(0, permits - keep)", "1"),
        worlds.PARTS.under(lost=1),
        "I1",
    ),
    seed(
        "a fence that follows the clock back",
        script("shares_acquire", "if previous and previous >= tonumber(now) then", "if false then"),
        worlds.TWO.under(back=1),
        "I3",
    ),
    seed(
        "a lease without expiry",
        script("shares_acquire", "call('PEXPIRE', KEYS[1], ttl)", ""),
        worlds.TWO.under(crash=1),
        "I10",
        daily="semaphore",
    ),
    seed(
        "a reader's release that ends another reader's lease",
        script("shares_release", "call('ZREM', KEYS[s.base], holder)", "call('DEL', KEYS[s.base])"),
        worlds.READERS,
        "I1",
        daily="rwlock",
    ),
    seed(
        "a read side that a lost writer still gets",
        script("shares_acquire", "call('ZSCORE', KEYS[1], nested_under) and", ""),
        worlds.DOWNGRADED_WRITER.under(expiry=1),
        "I1 I5",
    ),
    seed(
        "a wait without bound",
        Fault("line.bound", lambda *_: inf),
        worlds.WORKING_SIDES.under(wake=1),
        "I6",
    ),
    seed(
        "a loss that is not reported",
        Fault("keeper.lose", nothing),
        worlds.TOO_LONG,
        "I8",
    ),
    seed(
        "a grant that is not undone after a cancellation",
        Fault("attempt.undo", nothing),
        worlds.TWO.under(cancel=1),
        "I9",
    ),
)
