"""_io/port_blocking.py: which thread calls ``on_lost`` when no other can be started."""

import logging
import threading
from types import SimpleNamespace

import pytest

from fencelock._io import port_blocking
from tests.waiting import SOON, until


def hold(told):
    options = SimpleNamespace(on_lost=told.append)
    return SimpleNamespace(
        terms=SimpleNamespace(options=options), is_first_to=lambda _: True, name="a"
    )


def test_one_that_exits_its_thread_keeps_no_other_loss_from_its_holder(caplog):
    caplog.set_level(logging.CRITICAL, "fencelock")
    found, told, begun = port_blocking.LossCallbacks(), [], threading.Event()

    def exits(_hold):
        assert begun.wait(SOON)
        raise SystemExit

    first, second = hold(told), hold(told)
    first.terms.options.on_lost = exits
    found.add(first)
    until(lambda: found._busy, "the first is called")
    found._untold.append(second)  # as for one whose thread has just been started in vain
    begun.set()
    until(lambda: len(told) == 1, "the second is called")


def test_one_that_blocks_keeps_no_other_loss_from_its_holder():
    found, told, gate = port_blocking.LossCallbacks(), [], threading.Event()
    first, *others = (hold(told) for _ in range(3))
    first.terms.options.on_lost = lambda _: gate.wait()
    found._untold.extend([first, *others[:1]])
    found.add(others[1])
    try:
        until(lambda: len(told) == 2, "the others are called")
    finally:
        gate.set()


@pytest.mark.parametrize(
    ("busy", "said"), [(False, "delays its caller"), (True, "waits for another on_lost")]
)
def test_where_no_thread_can_be_started_one_that_is_in_a_callback_goes_on(
    monkeypatch, caplog, busy, said
):
    monkeypatch.setattr(port_blocking, "started", lambda _: RuntimeError("can't start new thread"))
    caplog.set_level(logging.WARNING, "fencelock")
    found, told = port_blocking.LossCallbacks(), []
    if busy:
        found._busy.add(threading.current_thread())
    lost = hold(told)
    found.add(lost)
    assert told == ([] if busy else [lost])
    assert len(found._untold) == (1 if busy else 0)
    assert said in caplog.text
