"""instrumentation/order_*.py: which orders can deadlock, which cannot, and how they are shared."""

from types import SimpleNamespace

import pytest

from fencelock.instrumentation import order_shared
from fencelock.instrumentation.order_graph import READ, WRITE, Order, OrderGraph, OrderStep
from fencelock.instrumentation.order_shared import SharedOrders

SEEN = OrderStep("a", "b", ("a.py:1 in f",), ("a.py:2 in f",), "host:1")


def learnt(*orders, written=()):
    graph = OrderGraph()
    for name in written:
        graph.write(name)
    found = [graph.learn(Order(*order), SEEN) for order in orders]
    return [tuple(each.first for each in circle) for circle in found if circle]


def test_one_order_is_none_to_report():
    assert learnt(("a", "b"), ("b", "c"), ("a", "c")) == []


def test_two_orders_that_meet():
    assert learnt(("a", "b"), ("b", "a")) == [("b", "a")]


def test_the_shortest_circle_of_many():
    assert learnt(("a", "b"), ("b", "c"), ("c", "d"), ("b", "d"), ("d", "a")) == [("d", "a", "b")]


def test_a_circle_is_reported_once():
    meets = ("a", "b"), ("b", "a"), ("b", "a", WRITE, READ), ("a", "b", READ)
    assert learnt(*meets) == [("b", "a")]


@pytest.mark.parametrize(
    ("orders", "circles"),
    [
        ([("a", "b", READ, READ), ("b", "a", READ, READ)], 0),
        ([("a", "b", READ, WRITE), ("b", "a", READ, WRITE)], 1),
        ([("a", "b", READ, READ), ("b", "a", WRITE, WRITE)], 1),
        ([("a", "b", READ, READ), ("b", "a", WRITE, READ)], 0),  # of a there are only readers
    ],
)
def test_readers_wait_for_no_readers(orders, circles):
    assert len(learnt(*orders)) == circles


def test_a_writer_between_two_readers_stops_both():
    readers = [("a", "b", READ, READ), ("b", "a", READ, READ)]
    assert learnt(*readers, written=("a",)) == []
    assert learnt(*readers, written=("a", "b")) == [("b", "a")]


def test_a_writer_that_comes_later_is_found_as_well():
    graph = OrderGraph()
    graph.learn(Order("a", "b", READ, READ), SEEN)
    assert graph.learn(Order("b", "a", READ, READ), SEEN) is None
    assert graph.write("a") is None
    assert graph.write("b") is not None
    assert graph.write("b") is None


def test_the_orders_of_multis_are_those_of_names_and_harmless_alone():
    by_name = ("a", "b", WRITE, WRITE, True), ("b", "a", WRITE, WRITE, True)
    assert learnt(*by_name) == []
    assert learnt(*by_name, ("a", "b")) == [("a", "b")]


def test_orders_that_no_thread_could_send_are_sent_with_the_next(monkeypatch):
    begun, trouble = [], [RuntimeError("can't start new thread"), None]

    def started(thread):
        begun.append(thread.name)
        return trouble[len(begun) - 1]

    monkeypatch.setattr(order_shared, "started", started)
    port = SimpleNamespace(server_timeout=5.0)
    shared = SharedOrders(SimpleNamespace(__shared__=lambda: (port, "p:")), lambda *_: None)
    for order in (("a", "b"), ("b", "c"), ("c", "d")):
        shared.add(order, None)
    assert begun == ["fencelock-orders"] * 2, "the third waits for the thread that sends"
    assert list(shared._new) == [("a", "b"), ("b", "c"), ("c", "d")]
