"""Each promise has a judge, and the daily worlds of its subject come to it."""

import importlib
import sys
from zlib import crc32

import pytest

from tests.flows.registry import WORLDS

SCHEDULES = 4  # of each world: what it calls hardly differs among them
ELSEWHERE = ["pairs"]  # a table of its own: the judges of what it pairs


def code_of(place):
    """Return the code of a judge, which may be defined in another function."""
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        inner = getattr(getattr(found, "__code__", None), "co_consts", ())
        found = next((each for each in inner if getattr(each, "co_name", "") == part), None) or (
            getattr(found, part)
        )
    return getattr(found, "__code__", found)


def asked(worlds, judges):
    """Return the judges that some schedules of these worlds come to."""
    left = {code_of(each): each for each in judges}
    found = set()

    def profile(frame, event, _arg):
        if event == "call" and frame.f_code in left:
            found.add(left[frame.f_code])

    for world in sorted(worlds, key=lambda each: crc32(each.title.encode())):  # unlike ones soon
        if len(found) == len(left):
            break
        sys.setprofile(profile)
        try:
            world.explore(schedules=SCHEDULES)
        finally:
            sys.setprofile(None)
    return found


def test_every_subject_has_its_promises():
    assert [name for name, of in WORLDS.items() if not of.promises] == ELSEWHERE


@pytest.mark.parametrize("subject", [name for name, of in WORLDS.items() if of.promises])
def test_the_daily_worlds_ask_for_every_promise(subject):
    judges = {*WORLDS[subject].promises.values()}
    assert judges - asked(WORLDS[subject].daily, judges) == set()
