"""What a log says becomes tenures and calls: nothing proved that was not, nothing forgotten."""

import itertools
import json

from verification.runs.history import PENDING, History, Log
from verification.runs.verdict import Verdict, as_calls

LOCK = "a"


class Book:
    """Writes the events of clients as their logs have them."""

    def __init__(self):
        self.history = History()
        self._numbers = itertools.count(1)

    def begin(self, do, at, pid=1, **more):
        number = f"{pid}-{next(self._numbers)}"
        self._say(event="begin", number=number, do=do, on=LOCK, begun=at, **more)
        return number

    def end(self, number, at, result, **more):
        self._say(event="end", number=number, ended=at, result=result, **more)

    def grant(self, asked, at, deadline, *, pid=1, fence=1, do="acquire"):
        number = self.begin(do, asked, pid)
        self.end(number, at, "granted", fence=fence, deadline=deadline)
        return number

    def release(self, lease, at, ended, result="ok"):
        self.end(self.begin("release", at, lease=lease), ended, result)

    def seen(self, lease, deadline):
        self._say(event="seen", lease=lease, deadline=deadline)

    def _say(self, **line):
        self.history.take(json.loads(json.dumps(line)))

    def proved(self, number):
        tenure = self.history.tenures[number]
        return tenure.start, tenure.end

    def calls(self, **options):
        ops = list(self.history.ops.values())
        return [call.do for call in as_calls(ops, self.history, **options)]


def test_a_lease_is_proved_from_its_grant_to_its_release():
    book = Book()
    lease = book.grant(1, 2, 9)
    book.release(lease, 5, 6)
    assert book.proved(lease) == (2, 5)


def test_a_lease_is_proved_to_its_deadline_at_most():
    book = Book()
    lease = book.grant(1, 2, 9)
    book.release(lease, 12, 13, "lost")
    assert book.proved(lease) == (2, 9)


def test_a_renewed_lease_is_proved_to_its_newest_deadline():
    book = Book()
    lease = book.grant(1, 2, 9)
    book.seen(lease, 15)
    book.seen(lease, 9)
    assert book.proved(lease) == (2, 15)


def test_a_grant_that_came_after_its_deadline_was_never_proved():
    book = Book()
    assert book.proved(book.grant(1, 10, 9)) == (10, 10)


def test_a_killed_process_holds_nothing_any_more():
    book = Book()
    killed, other = book.grant(1, 2, 9, pid=7), book.grant(1, 2, 9, pid=70)
    book.history.died(7, 4)
    assert (book.proved(killed), book.proved(other)) == ((2, 4), (2, 9))


def test_a_call_without_an_end_stays_pending():
    book = Book()
    number = book.begin("acquire", 1)
    assert book.history.ops[number].ended == PENDING


def test_a_released_lease_has_no_other_end():
    book = Book()
    book.release(book.grant(1, 2, 9), 5, 6)
    assert book.calls() == ["acquire", "release"]


def test_a_lease_whose_release_has_no_answer_may_end_from_then_on():
    book = Book()
    lease = book.grant(1, 2, 9)
    book.release(lease, 5, 6, "unknown")
    assert book.calls() == ["acquire", "expire"]
    *_, end = as_calls(list(book.history.ops.values()), book.history)
    assert end.begun == 5


def test_a_refusal_counts_where_nobody_can_have_waited():
    book = Book()
    book.release(book.grant(1, 2, 9, do="try"), 5, 6)
    book.end(book.begin("try", 30), 31, "refused")
    assert book.calls() == ["acquire", "release", "refused"]
    assert book.calls(line=True) == ["acquire", "release"]
    book.end(book.begin("acquire", 29), 30.5, "timeout")
    assert book.calls() == ["acquire", "release"]


def test_a_refusal_does_not_count_while_a_late_request_may_hold():
    book = Book()
    book.end(book.begin("try", 30), 31, "refused")
    assert book.calls(doubts=[(20, 29), (32, 40)]) == ["refused"]
    assert book.calls(doubts=[(20, 30.5)]) == []


def test_a_refusal_near_a_call_of_a_killed_process_does_not_count():
    book = Book()
    book.begin("try", 25)
    book.end(book.begin("try", 30), 31, "refused")
    assert book.calls() == []


def test_a_verdict_sees_what_reaches_over_the_end_of_a_chapter():
    """Fences that went back, and a lease that somebody still had, are seen in the next chapter."""
    book, verdict = Book(), Verdict(covered=True)
    book.release(book.grant(1, 2, 3, fence=8), 2.5, 2.6)
    book.grant(4, 5, 50, fence=7, pid=2)
    verdict.chapter(book.history, 0, 10)
    assert (len(verdict.fences_back) > 0, verdict.overlaps) == (True, [])
    book.grant(20, 21, 30, fence=9)
    verdict.chapter(book.history, 10, 40)
    assert len(verdict.overlaps) == 1


def test_a_log_is_read_line_by_line_as_it_grows(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"event": "began"}\n{"event"')
    log = Log(path)
    assert list(log.lines()) == [{"event": "began"}]
    with path.open("ab") as file:
        file.write(b': "sample"}\n')
    assert list(log.lines()) == [{"event": "sample"}]
    assert list(log.lines()) == []
