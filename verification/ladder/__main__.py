"""The ladder of broken locks: find, show, replay.

python -m verification.ladder               find a shortest schedule for each; is the page true?
python -m verification.ladder --replay      replay each on real servers, too
python -m verification.ladder --everywhere  on every kind of server of this machine
python -m verification.ladder --show        print the charts
python -m verification.ladder --write       write docs/explanation/ladder.md and its translation
python -m verification.ladder --deep N      fencelock under two faults, N seconds for each world
"""

import argparse
import sys
import time

from tests.servers import ServerBinary, binaries
from verification.ladder import ours
from verification.ladder.chart import found
from verification.ladder.page import LANGUAGES, Language, page
from verification.ladder.replay import all_breaks, possible, replay
from verification.ladder.rung import Break
from verification.simulator.shortest import faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replay", action="store_true", help="replay each on real servers")
    parser.add_argument("--everywhere", action="store_true", help="replay on all kinds of servers")
    parser.add_argument("--show", action="store_true", help="print the charts")
    parser.add_argument("--write", action="store_true", help="write the pages")
    parser.add_argument("--deep", type=float, metavar="SECONDS", help="fencelock under two faults")
    options = parser.parse_args()
    if options.deep:
        return deep(options.deep)
    told = [tell(name, how, options) for name, how in all_breaks()]
    good = [explored(), *told, *(paged(each, write=options.write) for each in LANGUAGES)]
    return 0 if all(good) else 1


def tell(name: str, how: Break, options: argparse.Namespace) -> bool:
    """Print one schedule's row; return whether it was found, and replayed if that was asked."""
    began = time.perf_counter()
    search = how.search
    if how.wanted not in search.found:
        print(f"{name[:44]:44} {how.wanted:40} NOT FOUND in {search.schedules:,} schedules")
        return False
    path = list(how.path)
    row = f"{name[:44]:44} {how.wanted:40} {faults(path)} faults {len(path):3} steps"
    row += f" {search.schedules:6,} tried {time.perf_counter() - began:5.1f} s"
    same = True
    if options.replay or options.everywhere:
        row, same = replayed(row, how, binaries() if options.everywhere else binaries()[:1])
    print(row, flush=True)
    if options.show:
        print(f"\n{found(how)}\n", flush=True)
    return same


def replayed(row: str, how: Break, kinds: list[ServerBinary]) -> tuple[str, bool]:
    if not possible(how):
        return f"{row}  on real servers: not here: it takes Linux and a C compiler", True
    results = {kind.name: replay(how, kind) for kind in kinds}
    told = ", ".join(f"{name} {result.words}" for name, result in results.items())
    return f"{row}  {told}", all(result.same for result in results.values())


def explored() -> bool:
    """Print what fencelock was explored with; return whether nothing was found, to the end."""
    reports = [bound.report for bound in ours.BOUNDS]
    schedules = sum(report.schedules for report in reports)
    complete = sum(report.complete for report in reports)
    print(f"fencelock: {complete} of {len(reports)} worlds to their end, {schedules:,} schedules")
    for report in reports:
        if report.violation is not None:
            print(report.story())
    return complete == len(reports)


def paged(language: Language, *, write: bool) -> bool:
    """Write a page, or return whether it says what was found."""
    text, place = page(language), language.page
    if write:
        place.write_text(text)
        return True
    true = place.exists() and place.read_text() == text
    print(f"{place.name} " + ("is true" if true else "is stale: --write writes it anew"))
    return true


def deep(seconds: float) -> int:
    """Explore fencelock further than the page does; 1 when something broke."""
    broken = False
    for bound in ours.bounds(2, ours.ONE_FAULT):
        report = bound.search(seconds=seconds)
        print(f"{bound.scenario.title:40} {report.schedules:9,} {report.extent}", flush=True)
        if report.violation is not None:
            broken = True
            print(report.story())
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
