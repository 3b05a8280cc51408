"""Faults sown on purpose: each changes one place of a shipping script or flow, and must be found.

A seed names the text that it replaces, and fails when that text is not there any more: then the
seed must be mended too, or it would prove nothing.
"""

import contextlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fencelock import scripts
from fencelock._core.lock import (
    acquire,
    hold,
    poll,
    release,
    renew,
    request,
    waiting,
)
from tests.flows import scenarios as worlds
from tests.flows.scenarios import Scenario
from verification.simulator.explorer import Report


@dataclass(frozen=True)
class Change:
    """One text for another: in a script (by name), or in the functions of a module or class."""

    where: Any
    old: str
    new: str

    def source(self) -> bytes:
        script = next(each for each in scripts.ALL if each.name == self.where)
        return self.swapped(script.source.decode()).encode()

    def swapped(self, text: str) -> str:
        if self.old not in text:
            raise LookupError(f"the seed's place is gone: {self.old!r}")
        return text.replace(self.old, self.new)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Have the functions run changed code, wherever the text stands and whoever calls them."""
        originals = dict(self.functions())
        self.swapped("".join(map(inspect.getsource, originals.values())))
        codes = {inspect.unwrap(each): inspect.unwrap(each).__code__ for each in originals.values()}
        changed = {each: self.changed(name, each) for name, each in originals.items()}
        for original, made in changed.items():
            inspect.unwrap(original).__code__ = inspect.unwrap(made).__code__
        try:
            yield
        finally:
            for function, code in codes.items():
                function.__code__ = code

    def functions(self) -> Iterator[tuple[str, Any]]:
        module = getattr(self.where, "__module__", self.where.__name__)
        for name, function in inspect.getmembers(self.where, inspect.isfunction):
            ours = function.__module__ == module and not name.startswith("__")
            code = inspect.unwrap(function).__code__
            changed = code.co_filename.startswith("<seeded")  # by another change
            if ours and not changed and self.old in inspect.getsource(function):
                yield name, function

    def changed(self, name: str, function: Any) -> Any:
        text = self.swapped(textwrap.dedent(inspect.getsource(function)))
        made: dict[str, Any] = {}
        exec(compile(text, f"<seeded {name}>", "exec"), inspect.unwrap(function).__globals__, made)
        return made[name]


@dataclass(frozen=True)
class Seed:
    """A fault, the scenario that shows it, and the invariants of which one must break.

    With a kind of object as ``daily`` it is one that the daily tests must find without help: sown
    into a copy of the package it makes the test that explores its scenario fail
    (tests/verification/test_daily.py).
    """

    name: str
    change: Change
    scenario: Scenario
    breaks: frozenset[str]
    daily: str = ""

    def explore(self) -> Report:
        change, scenario = self.change, self.scenario
        if isinstance(change.where, str):
            sources = scenario.sources | {change.where: change.source()}
            return replace(scenario, sources=sources).explore()
        with change.applied():
            return scenario.as_shipped().explore()


def script(name: str, old: str, new: str) -> Change:
    return Change(name, old, new)


def seed(name: str, change: Change, scenario: Scenario, breaks: str, *, daily: str = "") -> Seed:
    return Seed(name, change, scenario, frozenset(breaks.split()), daily)


HANDOFF = "hand_over(1, ARGV[2])"
FREE = "if not owned and call('EXISTS', KEYS[1], KEYS[3]) == 0 then"
FOREIGN = "if is_recorded() then"
ASKED = """reply = await port.run(
                    request.acquire(waiter.channel), request.keys.lock, until, waiter
                )"""
ASKED_TWICE = """reply = await port.run(request.acquire(b""), request.keys.lock, until, waiter)
            if not isinstance(reply, bytes):
                line_up = __import__("types").SimpleNamespace(name="line_up")
                from verification.simulator.server import unpacked
                args = unpacked(request.acquire(waiter.channel)).args
                reply = await port.call(line_up, request.keys.grant, args, until, waiter)"""


def line_up() -> dict[str, bytes]:
    """Return a script that makes a place in line and never grants.

    Where its text is gone, only the test of its seed fails.
    """
    with contextlib.suppress(LookupError):
        return _line_up()
    return {}


def _line_up() -> dict[str, bytes]:
    source = script("acquire", FREE, "if false then").source().decode()
    source = Change("", "if not current then", "if false then").swapped(source)
    return {"line_up": Change("", FOREIGN, "if true then").swapped(source).encode()}


SEEDS = (
    seed(
        "a release that does not check the holder",
        script("release", "if redis.pcall('GET', KEYS[1]) ~= holder then", "if false then"),
        worlds.TWO_FIXED.under(expiry=1),
        "I1 I8",
    ),
    seed(
        "a deadline counted from the reply",
        Change(
            acquire,
            ASKED,
            ASKED + "\n            asked_at = port.now()",
        ),
        worlds.TWO_TOO_LONG.under(late=1),
        "I1 I2",
        daily="lock",
    ),
    seed(
        "a handed-over deadline counted from the message's arrival",
        Change(
            waiting.Waiter,
            "deadline = handoff_deadline(self.asked_at, self.answered_us, granted_us, lease, now)",
            "deadline = now + lease * 0.99",
        ),
        worlds.TWO_TOO_LONG.under(late=1),
        "I1 I2",
    ),
    seed(
        "a place in line that is requested after the refusal",
        Change(acquire, ASKED, ASKED_TWICE),
        replace(worlds.TWO, sources=line_up()),
        "I6",
        daily="lock",
    ),
    seed(
        "a grant that is not undone after a cancellation",
        Change(acquire, "_undo(port, waiter)", "pass"),
        worlds.TWO.under(cancel=1),
        "I9",
        daily="lock",
    ),
    seed(
        "a place in line that is not left at the timeout",
        Change(acquire, "await _leave(port, waiter)", "pass"),
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
        Change(release, "and not repeated", ""),
        worlds.TWO.under(lost=1),
        "I4",
        daily="lock",
    ),
    seed(
        "a dead waiter that is still granted",
        script("release", "return type(heard) == 'table' or heard > 0", "return true"),
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
        Change(acquire, "min(line.bound(waiter), give_up_at", "max(line.bound(waiter), give_up_at"),
        worlds.TWO_WORKING.under(wake=1),
        "I6",
    ),
    seed(
        "a request that is asked again under the id of its undo",
        Change(acquire, "waiter.request = request.rename()", "pass"),
        worlds.TWO_ROUNDS.under(late=1),
        "I1 I4 I9",
    ),
    seed(
        "a place in line that is asked for on two connections, and undone on one",
        Change(release, "for stray in strays:", "for stray in ():"),
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
        Change(renew, "lose(port, hold, ", "(lambda *_: None)("),
        worlds.TWO_TOO_LONG,
        "I8",
        daily="lock",
    ),
    seed(
        "a lease that does not end before its release is sent",
        Change(release, "hold.open = False", "pass"),
        worlds.TWO,
        "I1 I8",
    ),
    seed(
        "a polling try whose deadline counts from its reply",
        Change(
            poll,
            "return asked_at, reply",
            "return port.now(), reply",
        ),
        worlds.POLLS_ON.under(late=1),
        "I1 I2",
    ),
    seed(
        "a renewal that shortens, relied on until its answer comes",
        Change(
            renew,
            "hold.move_deadline(min(hold.deadline, renewal.asked_at + validity(renewal.ttl)))",
            "pass",
        ),
        worlds.SHORTER.under(lost=1),
        "I1 I2",
    ),
    seed(
        "a renewal that is relied on though a shorter one may still run",
        Change(renew, "hold.reach = min(hold.reach, renewal.ttl)", "pass"),
        worlds.SHORTER_THEN_LONGER.under(zombie=1),
        "I1 I2",
    ),
    seed(
        "a background renewal that shortens",
        script("renew", "return not shortens and ", "return each == 3 and "),
        worlds.LONGER.under(lost=1),
        "I1 I2",
    ),
    seed(
        "a background renewal whose answer undoes a longer one",
        Change(renew, "max(hold.deadline, deadline)", "deadline"),
        worlds.LONGER,
        "L",
    ),
    seed(
        "two renewals of one lease at once",
        Change(renew, "now >= hold.asked_until and not", "not"),
        worlds.BOTH_RENEW,
        "I1 I2 L",
    ),
    seed(
        "a renewal by hand that passes max_hold",
        Change(
            renew.HolderRenewal, "span = self.hold.within_limits(self.ttl, now)", "span = self.ttl"
        ),
        worlds.BOUNDED_LONGER,
        "N3",
    ),
    seed(
        "a plain renewal that shortens",
        Change(hold.Hold, "max(ttl, self.least(now)) if self.request.plain else ttl", "ttl"),
        worlds.PLAIN_RENEWED,
        "I2 I1",
    ),
    seed(
        "a lease that proves on while it is given back",
        Change(release, "hold.released = True", "pass"),
        worlds.RETURNED.under(lost=1),
        "I1",
    ),
    seed(
        "a loss that the release finds, without a notification",
        Change(release, "at_release=True, port=port)", "at_release=True)"),
        worlds.CHECKED.under(restart=1),
        "I8",
    ),
    seed(
        "a loss that the holder's own check finds, without a notification",
        Change(hold.Hold, "port.notify_loss(self)", "pass"),
        worlds.CHECKED_FIXED,
        "I8",
    ),
    seed(
        "a limit that keeps a handed-over lease from growing",
        Change(hold.Hold, "if self.short:", "if False:"),
        worlds.LIMITED[0],
        "L",
    ),
    seed(
        "a handed-over lease whose growing counts as a renewal",
        Change(renew, "hold.renewals += not hold.short", "hold.renewals += 1"),
        worlds.LIMITED[1],
        "L",
    ),
    seed(
        "a lease until an instant, and the time in line on top",
        Change(acquire, "min(grant.deadline, request.template.ends), unit", "grant.deadline, unit"),
        worlds.INSTANTS[1],
        "N4",
    ),
    seed(
        "a grant after the instant at which its lease was to end",
        Change(acquire, "min(give_up_at, request.template.ends)", "give_up_at"),
        worlds.INSTANTS[2],
        "N4 I12",
    ),
    seed(
        "a lease until an instant that is not what was left when it was asked for",
        Change(request.RequestTemplate, "self.ends - now))", "self.ttl))"),
        worlds.INSTANTS[0].under(wake=1),
        "N4",
    ),
    seed(
        "a lease until an instant that is granted from the line as short as a handoff",
        script("acquire", "if in_line_ms ~= ARGV[3] then full_lease() end", ""),
        worlds.INSTANTS[0].under(lost=1, crash=1),
        "I2",
    ),
)
