"""The faults of verification/peers, on fencelock: nothing goes wrong, and the harness would see it.

The peers are not installed here. redis-py is, and of its lock three things are certain: it ends
without a word when its ttl has passed, without a ttl it stays for ever, and a child can release it.
"""

import json

import pytest

from verification.peers.__main__ import MEASURED, PAGE
from verification.peers.columns import COLUMNS, absent
from verification.peers.page import notes, page, tables
from verification.peers.play import ROWS, play
from verification.peers.seen import Seen, cell, faults, record

pytestmark = pytest.mark.slow
JOBS = 10
OURS = [each for each in COLUMNS if each.library == "fencelock"]
THEIRS = next(each for each in COLUMNS if each.name == "redis-py (threads)")
# A fixed lease cannot start short: ten seconds for what the documentation says anyway.
FAULTS = [each for each in ROWS if each.key != "waiter-frozen-fixed"]
CERTAIN = {"killed-by-default", "long-work-fixed", "forked"}


@pytest.fixture(scope="module")
def told():
    """What was seen, by column; of redis-py only what is certain."""
    pairs = [(column, row) for column in OURS for row in FAULTS]
    pairs += [(THEIRS, row) for row in FAULTS if row.key in CERTAIN]
    return play(pairs, runs=1, jobs=JOBS)


@pytest.fixture(scope="module")
def ours(told):
    return {column.name: told[column.name] for column in OURS}


def test_no_fault_breaks_fencelock(ours):
    broken = {
        f"{name}: {key}": told
        for name, cells in ours.items()
        for key, told in cells.items()
        if "failed" in told or faults(told)
    }
    assert not broken


def test_fencelock_plays_every_fault(ours):
    for column in OURS:
        played = {key for key, told in ours[column.name].items() if "runs" in told}
        assert played == {each.key for each in FAULTS if column.face in each.faces}


def test_a_holder_knows_by_itself_and_waiters_get_the_lock(ours):
    for cells in ours.values():
        assert [cells[key]["runs"][0]["learns"] for key in ("frozen", "long-work-fixed")] == [
            "at once",
            "at once",
        ]
        delays = {key: told["runs"][0]["delay"] for key, told in cells.items()}
        assert not [key for key, delay in delays.items() if delay == "inf"]


def test_the_harness_sees_what_goes_wrong(told):
    theirs = {key: cell["runs"][0] for key, cell in told[THEIRS.name].items()}
    assert theirs.keys() == CERTAIN
    assert theirs["killed-by-default"]["orphan"] == "inf"
    assert theirs["long-work-fixed"]["violation"]
    assert theirs["forked"]["violation"]


def test_the_tables_tell_all_that_was_seen():
    row = ROWS[0]
    told = {
        "fencelock (threads)": {row.key: record([Seen(), Seen()])},
        "redis-py (threads)": {row.key: record([Seen(orphan=float("inf"), wrong=True), Seen()])},
        "pottery (threads)": {row.key: {"absent": "no such thing"}},
        "redlock-ng (threads)": {"absent": "ModuleNotFoundError: redlock"},
    }
    assert f"| {row.title} | 0 | **O 1/2** (for ever), **W 1/2** | n/a | cannot run |" in tables(
        told
    )
    reasons = "\n".join(notes(told))
    assert "no such thing" in reasons
    assert "ModuleNotFoundError" in reasons


def test_the_page_is_what_was_measured():
    assert PAGE.read_text() == page(json.loads(MEASURED.read_text())), "--render --write makes it"


def test_hangs_and_delays_are_told():
    assert cell(record([Seen(hang=9.0)])) == "**H 1/1** (> 8 s)"
    assert cell(record([Seen(delay=0.5), Seen(delay=0.7), Seen(delay=float("inf"))])) == "0.7 s"
    assert cell(record([Seen(violation=True, count=(0, 4))])) == "**V 1/1**"


def test_a_library_that_is_not_installed_is_told_with_the_reason():
    missing = COLUMNS[0]._replace(place="no_such_library:Threads")
    assert "no_such_library" in absent(missing)
