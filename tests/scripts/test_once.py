"""The scripts of ``once``, call by call."""

import pytest

from fencelock import scripts
from tests.scripts.calls import HOME, RECORD, keys
from tests.scripts.lock import acquire, fence, options, place, take_away

LOCK, LAST, QUEUE, *_ = A = keys(b"a")
ONCE = keys(b"a", "once")


def start(space, who, info=b'{"once":1}'):
    args = (who, place(who), 9000, RECORD + 9000, options(info=info))
    return space.run(scripts.ONCE_START, [*A[:5], *ONCE], *args)


def finish(space, who, within=50_000, least=1000):
    args = (who, HOME, within, least, b"json", b"the value")
    return space.run(scripts.ONCE_FINISH, [*A, *ONCE], *args)


def test_a_result_is_kept_from_the_start_of_its_run_and_told_to_all_who_wait(space):
    began = int(start(space, b"x"))
    for who in (b"y", b"z"):
        start(space, who)
    acquire(space, b"plain", A)
    space.wait(2)
    assert finish(space, b"other") == [-1, b""]
    assert finish(space, b"x") == 1
    info = b'{"once":1}'
    said = b"%d x %d %d json %d %sthe value" % (began, began, space.now, len(info), info)
    assert space.command(b"GET", *ONCE) == said
    assert space.ttls(*ONCE) == [48_000]
    told = [b"granted %s 0 %d 60000" % (who, space.now) for who in (b"y", b"z")]
    assert [message for _, message in space.heard][:2] == told
    assert space.command(b"GET", LOCK) == b"plain"
    assert space.line(QUEUE) == []
    assert finish(space, b"x") == 1
    assert start(space, b"v") == b"0"


@pytest.mark.parametrize(("within", "least", "kept"), [
    (50_000, 1000, 45_000), (3000, 1000, 1000), (5500, 1000, 1000), (6500, 1000, 1500), (0, 0, 1),
])  # fmt: skip
def test_a_result_is_kept_for_a_moment_from_the_end_at_least(space, within, least, kept):
    start(space, b"x")
    space.wait(5)
    assert finish(space, b"x", within, least) == 1
    assert space.ttls(*ONCE) == [kept]


def test_a_run_that_was_forgotten_or_taken_over_keeps_no_result(space):
    start(space, b"x")
    space.wait(10)
    assert finish(space, b"x") == 1
    kept = space.command(b"GET", *ONCE)
    for wrong in (b"1", b"%d" % (fence(space, A) + 1)):
        assert space.run(scripts.ONCE_FORGET, ONCE, wrong) == 0
    assert space.command(b"GET", *ONCE) == kept
    assert space.run(scripts.ONCE_FORGET, ONCE, b"%d" % fence(space, A)) == 1
    assert space.run(scripts.ONCE_FORGET, ONCE, b"%d" % fence(space, A)) == 0
    start(space, b"y")
    assert finish(space, b"x") == [-1, b""]
    take_away(space, A)
    assert finish(space, b"y") == [-1, b"a word"]
    assert finish(space, b"z") == [-1, None]


def test_a_run_whose_record_the_server_forgot_keeps_its_result_all_the_same(space):
    start(space, b"x")
    space.command(b"DEL", LAST)
    space.wait(2)
    assert finish(space, b"x") == 1
    said = b"0 x %d %d json 2 {}the value" % (space.now, space.now)
    assert space.command(b"GET", *ONCE) == said
    assert space.ttls(*ONCE) == [50_000]
