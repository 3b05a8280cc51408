"""_core/look/show.py and its command: what people are shown of holders and waiters."""

from fencelock._core.look.clients import Row
from fencelock._core.look.show import Shown, _only, _with_local, describe

NOW = 1_700_000_000_000_000  # microseconds
SECOND = 1_000_000
DAY = 86_400


def share(pid, *, held_for):
    told = b'{"host":"h","pid":%d}' % pid
    return b"1 %d 9000 7000 p1 home %s" % (NOW - held_for * SECOND, told)


def shown(*holds):
    """Return the record of holders; each is a share, and how many seconds it lasts."""
    told = [word for hold, left in holds for word in (hold, b"%d" % (NOW + left * SECOND))]
    record = b"%d =semaphore 5 5 %d" % (NOW, len(holds))
    reply = [b"zset", b"", 9000, record, 0, [], len(holds), len(holds), told, []]
    return describe("a", Shown(NOW, reply))


def test_spans_are_in_seconds_however_long_they_are():
    info = shown((share(1, held_for=7 * DAY), 30 * DAY))
    assert (info.remaining, info.holder.held_for) == (30 * DAY, 7 * DAY)
    assert info.holder.remaining == 30 * DAY
    assert info.holder.since == NOW / SECOND - 7 * DAY


def test_of_one_process_the_holder_whose_lease_ends_first_is_named():
    ends = [(1, 10, 1), (2, 20, 2), (1, 30, 3), (2, 40, 4)]
    info = shown(*[(share(pid, held_for=held), left) for pid, left, held in ends])
    only = _only(info, ("h", 2))
    assert [each.remaining for each in only.holders] == [20, 40]
    assert (only.holder, only.remaining, only.holder.held_for) == (info.holders[1], 20, 2)
    assert (only.holding, only.taken) == (2, 2)


def test_those_inside_a_client_count_once_by_its_own_word_or_else_by_that_of_the_server():
    """Of two clients in line one says now who waits inside it; the line has two more places."""
    line = []
    for client, others in ((b"spoke", 7), (b"silent", 2)):
        told = b'{"host":"h","pid":1,"others":%d}' % others
        line += [b"1 home 9000 7000 0 w %s %s" % (client, told), b"%d" % (NOW - 3 * SECOND)]
    shown = Shown(NOW, [b"string", b"x", 9000, b"1 x 9000 7000 0 holder {}", 4, line, [b"1", 6]])
    inside = [Row("a", "{}", 9.0, holds=False), Row("a", '{"others":20}', 1.0, holds=False)]
    status = _with_local(describe("a", shown), [(b"spoke", row) for row in inside], shown)
    assert status.waiting_units == 4 + (1 + 1 + 20) + 5
    assert (status.waiting_words, status.longest_wait) == ("31+", 9.0)
    assert status._replace(waiting=2).waiting_words == "29"
