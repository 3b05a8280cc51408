"""The checker of orders that shares them through a server: what its thread does beside a call."""

import threading

import fencelock
from fencelock.instrumentation import OrderChecker, set_hooks


def take_in_order(checker, locks):
    """Acquire one lock inside the other, seen by a checker."""
    set_hooks([checker])
    try:
        with locks[0], locks[1]:
            pass
    finally:
        set_hooks([])


def test_sync_waits_for_the_reports_of_an_exchange_that_began_before(server, prefix):
    """As found: the thread that shares orders had the report, and had not handed it on."""
    begun, goes_on, reports = threading.Event(), threading.Event(), []

    def report_slowly(report):
        begun.set()
        goes_on.wait(8)
        reports.append(report)

    with fencelock.Client(server.url, key_prefix=prefix) as client:
        locks = client.lock("a"), client.lock("b")
        first = OrderChecker(client=client)
        take_in_order(first, locks)
        first.sync()
        second = OrderChecker(client=client, on_report=report_slowly)
        take_in_order(second, locks[::-1])
        assert begun.wait(8)
        threading.Timer(0.1, goes_on.set).start()
        second.sync()
        assert len(reports) == 1
