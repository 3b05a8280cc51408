"""Which form of the two scripts costs the server least, and what would it give up?

python benchmarks/pair_scripts.py

Prints the server's time for an uncontended acquire and release, by INFO commandstats: of the
scripts that ship, of other forms of them, and of the floor (SET NX PX and a compare-and-delete
script).

- warm: pairs follow each other without a pause, from one packed request. Caches have all they need.
- cold: a whole pair of fencelock's client with a second server goes before each pair, on the same
  core, as in a program that also does something else. The floor gets no better treatment.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator

from floors import RELEASE as COMPARE_AND_DELETE
from measure import Plan, Samples, alternate
from servers import serving
from wire import Line, pack

import fencelock
from fencelock._core.keys import LockKeys
from fencelock.scripts import ACQUIRE, RELEASE

Pair = Callable[[bytes], tuple[bytes, bytes]]  # of a holder: the two commands

PAIRS = 40  # of one sample
ROUNDS = 100
FLOOR, OURS = "the floor", "as it is"
BY_COMMAND = "as it is, but released by DELIFEQ"  # Valkey 9; Redis 8.4 spells it DELEX … IFEQ …

KEYS = LockKeys("fencelock:", "bench")
HOME = b"fencelock:@318c2056506d5014"
TERMS = b'30000 2000 0 %b {"host":"web-1","pid":31677,"unit":"MainThread"}' % HOME

# Forms that are no more than the usual case; any other case makes them fail.
READ = """
local call = redis.call
local t, last = call('TIME'), call('GET', KEYS[2])
local fence = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
if last and not (last < fence) then return {1} end
"""
WRITE_ONE = """
if not call('SET', KEYS[1], fence .. ' ' .. ARGV[1] .. ' ' .. ARGV[5], 'NX', 'PX', ARGV[3]) then
  return {1}
end
return fence
"""
WRITE_TWO = """
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return {1} end
call('SET', KEYS[2], fence .. ' ' .. ARGV[1] .. ' ' .. ARGV[5], 'PX', ARGV[4])
return fence
"""
NO_LINE = "if redis.call('EXISTS', KEYS[3]) == 1 then return {1} end\n"
FIND_ONE = """
local value = redis.call('GET', KEYS[1])
if string.sub(value, 18, 17 + #ARGV[1]) ~= ARGV[1] then return {1} end
"""
FIND_TWO = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {1} end\n"
DELETE = "return redis.call('DEL', KEYS[1])"
RENAME = "redis.call('RENAME', KEYS[1], KEYS[2])\n"
TEN_MINUTES = "return redis.call('PEXPIRE', KEYS[2], '600000')"
SET_ALONE = (
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return '1' end return {1}"
)

FORMS = {
    OURS: (ACQUIRE.source, RELEASE.source),
    "two keys, the record says whether there is a line": (
        READ + WRITE_TWO,
        FIND_TWO + NO_LINE + DELETE,
    ),
    "one value, its record lasts ten minutes": (
        READ + NO_LINE + WRITE_ONE,
        FIND_ONE + NO_LINE + RENAME + TEN_MINUTES,
    ),
    "one value, its record lasts as long as the lease": (
        READ + NO_LINE + WRITE_ONE,
        FIND_ONE + NO_LINE + RENAME + "return 1",
    ),
    "the same, and values say whether there is a line": (
        READ + WRITE_ONE,
        FIND_ONE + RENAME + "return 1",
    ),
    "the same, and no record at all": (READ + WRITE_ONE, FIND_ONE + DELETE),
    "SET NX PX in a script, no fence": (SET_ALONE, FIND_TWO + DELETE),
    BY_COMMAND: (ACQUIRE.source, ""),
}


def scripts(line: Line, sources: Iterable[bytes | str]) -> Pair:
    """Return the two commands of a form."""
    acquire, release = (each and line.command("SCRIPT", "LOAD", each) for each in sources)

    def pair(holder: bytes) -> tuple[bytes, bytes]:
        place = b"%b %b %b.1 " % (holder, holder, HOME)
        words = (*KEYS.grant, holder, place, 30000, 630000, TERMS)
        take = pack("EVALSHA", acquire, len(KEYS.grant), *words)
        if not release:
            return take, pack("DELIFEQ", KEYS.lock, holder)
        return take, pack("EVALSHA", release, len(KEYS.all), *KEYS.all, holder, HOME)

    return pair


def floor(line: Line) -> Pair:
    """Return the two commands of the floor."""
    release = line.command("SCRIPT", "LOAD", COMPARE_AND_DELETE)

    def pair(holder: bytes) -> tuple[bytes, bytes]:
        take = pack("SET", KEYS.lock, holder, "NX", "PX", 30000)
        return take, pack("EVALSHA", release, 1, KEYS.lock, holder)

    return pair


class Bench:
    """A server whose time is measured; with ``disturb``, that is done before each pair."""

    def __init__(self, line: Line, disturb: Callable[[], object] | None) -> None:
        self._line, self._disturb = line, disturb
        self._pairs = {name: scripts(line, sources) for name, sources in FORMS.items()}
        self._pairs[FLOOR] = floor(line)

    def measure(self, name: str) -> float:
        """Return the microseconds of one pair."""
        self._line.command("FLUSHALL")
        first, *pairs = [self._pairs[name](secrets.token_hex(16).encode()) for _ in range(PAIRS)]
        self._run(*first)
        self._line.command("CONFIG", "RESETSTAT")
        if self._disturb is None:
            self._run(*(command for pair in pairs for command in pair))
        else:
            for take, give in pairs:
                self._disturb()
                self._run(take)
                self._run(give)
        plain = {FLOOR: ["set"], BY_COMMAND: ["delifeq"]}.get(name, [])
        return self._spent("evalsha", *plain) / len(pairs)

    def _run(self, *commands: bytes) -> None:
        answers = self._line.answers(commands)
        if any(isinstance(answer, list) for answer in answers):
            raise SystemExit(f"a form met what it is not for: {answers}")

    def _spent(self, *names: str) -> float:
        """Return the microseconds since RESETSTAT; what a script calls is in the script's time."""
        stats = self._line.info("commandstats")
        found = (re.search(r"usec=(\d+)", stats[f"cmdstat_{name}"]) for name in names)
        return sum(float(each[1]) for each in found if each)


@contextlib.contextmanager
def on_one_core() -> Iterator[tuple[Line, Callable[[], object]]]:
    """Lend a line to the measured server, and a pair of the public client with another server."""
    with serving(None) as server, serving(None) as other, Line(server.address) as line:
        core = {min(os.sched_getaffinity(0))}
        for pid in (0, server.pid, other.pid):
            os.sched_setaffinity(pid or 0, core)
        with fencelock.Client(other.address.url) as client:
            lock = client.lock("bench")

            def disturb() -> None:
                with lock:
                    pass

            yield line, disturb


def print_table(warm: Samples, cold: Samples) -> None:
    """Print both ways to measure side by side."""
    print("| form | warm, us | x floor | x as it is | cold, us | x floor | x as it is |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in filter(cold.costs.__contains__, (FLOOR, *FORMS)):
        cells = [name]
        for samples in (warm, cold):
            ratio = 1.0 if name == FLOOR else samples.ratio_to_floor(name)
            cells += [
                f"{samples.median(name):.1f}",
                f"{ratio:.2f}",
                f"{samples.ratio(name, OURS):.2f}",
            ]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    """Measure all forms, each beside the floor, warm and cold."""
    with on_one_core() as (line, disturb):
        others = [name for name in FORMS if name != OURS]
        if line.command("COMMAND", "INFO", "DELIFEQ")[0] is None:
            others.remove(BY_COMMAND)
        warm, cold = (
            alternate(Bench(line, each).measure, FLOOR, OURS, others, Plan(ROUNDS))
            for each in (None, disturb)
        )
    print_table(warm, cold)


if __name__ == "__main__":
    main()
