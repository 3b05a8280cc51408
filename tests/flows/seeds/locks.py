"""Faults sown on purpose into locks, each of which must be found; how they are sown: sowing.py."""

import contextlib
from dataclasses import dataclass, replace
from math import inf

from tests.flows.sowing import (
    Defect,
    Fault,
    Lua,
    Statement,
    Without,
    given,
    nothing,
    script,
)
from tests.flows.worlds import locks as worlds
from tests.flows.worlds.locks import Scenario
from verification.simulator.explorer import Report


@dataclass(frozen=True)
class Seed:
    """A fault, the scenario that shows it, and the invariants of which one must break.

    With a kind of object as ``daily`` it is one that the daily tests must find without help: sown
    in a process of its own it makes the test that explores its scenario fail
    (tests/verification/test_daily.py).
    """

    name: str
    change: Defect
    scenario: Scenario
    breaks: frozenset[str]
    daily: str = ""

    def explore(self) -> Report:
        change, scenario = self.change, self.scenario
        if isinstance(change, Lua):
            sources = scenario.sources | {change.where: change.source()}
            return replace(scenario, sources=sources).explore()
        with change.applied():
            return scenario.as_shipped().explore()


def seed(name: str, change: Defect, scenario: Scenario, breaks: str, *, daily: str = "") -> Seed:
    return Seed(name, change, scenario, frozenset(breaks.split()), daily)


HANDOFF = "hand_over(1, ARGV[2])"
FREE = "if not owned and call('EXISTS', KEYS[1], KEYS[3]) == 0 then"
FOREIGN = "if by ~= '' then"
ASKED = "reply = await port.ask_for(asks, now, until, listen=listen)"
ASKED_TWICE = """
await port.open(asks, until, listen=listen)
packed = asks.question(port.now())
reply = await port.run(asks.terms.acquire(asks, b""), asks.keys.lock, until, asks)
if isinstance(reply, bytes):
    port.close(asks)
else:
    line_up = __import__("types").SimpleNamespace(name="line_up")
    from verification.simulator.server import unpacked
    args = unpacked(packed).args
    reply = await port.call(line_up, asks.keys.grant, args, until, asks)
"""


def line_up() -> dict[str, bytes]:
    """Return a script that makes a place in line and never grants.

    Where its text is gone, only the test of its seed fails.
    """
    with contextlib.suppress(LookupError):
        return _line_up()
    return {}


def _line_up() -> dict[str, bytes]:
    source = script("acquire", FREE, "if false then").source().decode()
    source = Lua("", "if not current then", "if false then").swapped(source)
    return {"line_up": Lua("", FOREIGN, "if true then").swapped(source).encode()}


def counted_from_arrival(_real, _asked_at, _answered_us, _granted_us, lease, now):
    """Count a lease that was handed over from the message."""
    return now + lease * 0.99


def as_if_asked_once(real, *args, repeated):
    """Judge an answer as if it were that to the first request."""
    del repeated
    return real(*args, repeated=False)


SEEDS = (
    seed(
        "a release that does not check the holder",
        script("release", "if redis.pcall('GET', KEYS[1]) ~= holder then", "if false then"),
        worlds.TWO_FIXED.under(expiry=1),
        "I1 I8",
    ),
    seed(
        "a deadline counted from the reply",
        Statement("attempt.question", ASKED, f"{ASKED}\nasks.sent_at = port.now()"),
        worlds.TWO_TOO_LONG.under(late=1),
        "I1 I2",
        daily="lock",
    ),
    seed(
        "a handed-over deadline counted from the message's arrival",
        Fault("attempt.deadline_of_push", counted_from_arrival),
        worlds.TWO_TOO_LONG.under(late=1),
        "I1 I2",
    ),
    seed(
        "a place in line that is requested after the refusal",
        Statement("attempt.question", ASKED, ASKED_TWICE),
        replace(worlds.TWO, sources=line_up()),
        "I6",
        daily="lock",
    ),
    seed(
        "a grant that is not undone after a cancellation",
        Fault("attempt.undo", nothing),
        worlds.TWO.under(cancel=1),
        "I9",
        daily="lock",
    ),
    seed(
        "a place in line that is not left at the timeout",
        Fault("attempt.leave", nothing),
        worlds.TWO_IMPATIENT,
        "I9 I5 I7",
    ),
    seed(
        "a lock without expiry",
        script("acquire", "holder, 'PX', ARGV[3])", "holder)"),
        worlds.TWO.under(crash=1),
        "I6 I10 I2",
        daily="lock",
    ),
    seed(
        "a renewal that does not check the holder",
        script("renew", "if current ~= holder then", "if not current then"),
        worlds.TWO_LONG.under(late=1),
        "I11 I1",
        daily="lock",
    ),
    seed(
        "a release that deletes instead of handing over",
        script("release", HANDOFF, "call('DEL', KEYS[1])"),
        worlds.TWO,
        "I5",
        daily="lock",
    ),
    seed(
        "a fence that follows the clock back",
        script("acquire", "if previous and previous >= tonumber(now) then", "if false then"),
        worlds.TWO.under(back=1),
        "I3",
        daily="lock",
    ),
    seed(
        "an abandon that ignores a grant made at that moment",
        script("abandon", "if current == ARGV[2] then", "if false then"),
        worlds.TWO_IMPATIENT,
        "I9",
    ),
    seed(
        "a release whose reply was lost, reported as a loss",
        Fault("engine.released", as_if_asked_once),
        worlds.TWO.under(lost=1),
        "I4",
        daily="lock",
    ),
    seed(
        "a dead waiter that is still granted",
        script(
            "release",
            "if listeners(channel) == 0 then return false end\n  return publish(",
            "return true, publish(",
        ),
        worlds.TWO.under(crash=1),
        "I7",
        daily="lock",
    ),
    seed(
        "an acquire that does not recognise its own grant when repeated",
        script("acquire", "if current == holder then return reenter() end", ""),
        worlds.TWO.under(lost=1),
        "I1 I4 I6 I9 I7",
    ),
    seed(
        "a wait without bound",
        Fault("line.bound", lambda *_: inf),
        worlds.TWO_WORKING.under(wake=1),
        "I6",
    ),
    seed(
        "a request that is asked again under the id of its undo",
        Fault("attempt.rename", nothing),
        worlds.TWO_ROUNDS.under(late=1),
        "I1 I4 I9",
    ),
    seed(
        "a place in line that is asked for on two connections, and undone on one",
        Without("wire.post", by="attempt.undo_owed"),
        worlds.FOREIGN.under(late=1),
        "I9",
    ),
    seed(
        "an operator's request that takes the lock from the next holder, too",
        script("break", "if call('ZSCORE', KEYS[4], 'broke ' .. ARGV[3]) then", "if false then"),
        worlds.BROKEN.under(lost=1),
        "I4",
    ),
    seed(
        "a newcomer that overtakes the line",
        script("acquire", "call('EXISTS', KEYS[1], KEYS[3])", "call('EXISTS', KEYS[1])"),
        worlds.THREE.under(expiry=1),
        "I5",
    ),
    seed(
        "a loss that is not reported",
        Fault("keeper.lose", nothing),
        worlds.TWO_TOO_LONG,
        "I8",
        daily="lock",
    ),
    seed(
        "a lease that does not end before its release is sent",
        Statement("keeper.retire", "self.open = False", "pass"),
        worlds.TWO,
        "I1 I8",
    ),
    seed(
        "a polling try whose deadline counts from its reply",
        Statement("attempt.try_plain", "return asked_at, reply", "return port.now(), reply"),
        worlds.POLLS_ON.under(late=1),
        "I1 I2",
    ),
    seed(
        "a renewal that shortens",
        script("renew", "elseif call('PTTL', KEYS[k]) < tonumber(ttl) then", "else"),
        worlds.LONGER.under(lost=1),
        "I1 I2",
    ),
    seed(
        "a background renewal whose answer undoes a longer one",
        Statement("keeper.apply", "max(hold.deadline, deadline)", "deadline"),
        worlds.LONGER,
        "I15",
    ),
    seed(
        "a lease that is left under its holder's id, and revived by a renewal",
        script(
            "leave",
            "call('SET', KEYS[1], left, 'PX', ARGV[2])",
            "call('PEXPIRE', KEYS[1], ARGV[2])",
        ),
        worlds.LEFT.threads(),
        "I15",
    ),
    seed(
        "a renewal by hand that passes max_hold",
        Fault("hold.within_limits", lambda _real, _self, ttl, _now: ttl),
        worlds.BOUNDED_LONGER,
        "I11",
    ),
    seed(
        "a plain renewal that shortens",
        script("poll_renew", "if left < tonumber(ARGV[2]) then", "if true then"),
        worlds.PLAIN_RENEWED,
        "I2 I1",
    ),
    seed(
        "a lease that proves on while it is given back",
        Statement("keeper.retire", "self.released = True", "pass"),
        worlds.RETURNED.under(lost=1),
        "I1",
    ),
    seed(
        "a loss that the release finds, without a notification",
        Statement("hold.lose", "releasing or self.port", "self.port"),
        worlds.CHECKED.under(restart=1),
        "I8",
    ),
    seed(
        "a loss that the holder's own check finds, without a notification",
        Without("wire.report_loss", by="hold.tell"),
        worlds.CHECKED_FIXED,
        "I8",
    ),
    seed(
        "a limit that keeps a handed-over lease from growing",
        Fault("hold.renewable", given(short=False)),
        worlds.LIMITED[0],
        "L",
    ),
    seed(
        "a handed-over lease whose growing counts as a renewal",
        Statement("hold.renewed", "self.renewals += not self.short", "self.renewals += 1"),
        worlds.LIMITED[1],
        "L",
    ),
    seed(
        "a lease until an instant, and the time in line on top",
        Statement("hold.start_lease", "terms.ends < deadline", "False"),
        worlds.INSTANTS[1],
        "instant",
    ),
    seed(
        "a grant after the instant at which its lease was to end",
        Statement("attempt.made", "terms.ends", "inf"),
        worlds.INSTANTS[2],
        "instant I12",
    ),
    seed(
        "a lease until an instant that is not what was left when it was asked for",
        Statement("terms.lasting", "self.ends - now", "self.ttl"),
        worlds.INSTANTS[0].under(wake=1),
        "instant",
    ),
    seed(
        "a lease until an instant that is granted from the line as short as a handoff",
        script("acquire", "if in_line_ms ~= ARGV[3] then full_lease() end", ""),
        worlds.INSTANTS[0].under(lost=1, crash=1),
        "I2",
    ),
)
