"""What every test starts from."""

import faulthandler
import functools
import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.bystanders import shared_by_all
from tests.faces import FACE, has_turn
from tests.topologies import TOPOLOGIES, Topology
from tests.waiting import stalls

# A test that needs a server starts one of its own; no test ever finds the user's.
os.environ.pop("FENCELOCK_URL", None)

# Started in the background of a shell, or by nohup, these would be ignored, in all children too.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        _usual = signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, _usual)


# uvloop swallows what a signal handler raises, so pytest-timeout ends no hang in it.
HANG_SECONDS = 720


@pytest.fixture(autouse=True)
def _process(request):
    """Fail a test that leaves the process in another state than it found it.

    Its effect would be on another test, and only when both meet in one process. A hang under uvloop
    ends the whole run, with every thread's traceback.
    """
    stalls().seconds = 0.0  # what the machine took from an earlier test excuses none
    before = shared_by_all()
    if uvloop := "uvloop" in request.node.nodeid:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=sys.__stderr__)
    yield
    if uvloop:
        faulthandler.cancel_dump_traceback_later()
    after = shared_by_all()
    assert after == before, "this test changed what belongs to the whole process"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give a file to one process, of conformance one face of it, and all of a topology.

    So a topology's servers are started once, and no process ends up alone with a file that waits.
    """
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  # only a spread run needs it

    class ByServers(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return topology_of(nodeid) or super()._split_scope(nodeid) + face_of(nodeid)

    return ByServers(config, log) if config.getoption("dist") == "loadfile" else None


def topology_of(nodeid: str) -> str:
    """Return the topology that a conformance test's id names; empty if it runs on one server."""
    file, _, case = nodeid.partition("[")
    if not file.startswith("tests/conformance/"):
        return ""
    return next((each.name for each in TOPOLOGIES if each.name in case.rstrip("]").split("-")), "")


def face_of(nodeid: str) -> str:
    """Return the face that a conformance test's id names; empty if it names none."""
    found = FACE.search(nodeid.partition("[")[2])
    return found[0] if found and nodeid.startswith("tests/conformance/") else ""


def pytest_collection() -> None:
    """Make no collection while tests are collected: nothing of them is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collector away from what stays to the end: there are 8,000 cases and more."""
    gc.enable()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run what runs on every kind of server on the first N kinds only, no topology (all)"
    parser.addoption("--kinds", type=int, metavar="N", help=text)
    text = "run what tests/daily.py says runs then, or what tests/calm.txt names (all)"
    parser.addoption("--part", choices=("daily", "rest", "nightly", "calm"), help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kinds, part = config.getoption("kinds"), config.getoption("part")
    left_out = {item for item in items if is_left_to_the_other_face(item)}
    if kinds is not None:
        left_out.update(on_other_kinds(items, kinds))
    if part is not None:
        from tests.daily import part as part_of  # noqa: PLC0415  # only that option needs it

        left_out.update(
            item for item in items if ("calm" if is_calm(item) else part_of(item)) != part
        )
    if sys.implementation.name != "cpython":
        for item in items:
            if item.get_closest_marker("refcounts"):
                item.add_marker(pytest.mark.skip(reason="this Python does not count references"))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@functools.cache
def calm() -> frozenset[str]:
    """Return the tests that want a machine with nothing else to do."""
    lines = Path(__file__).with_name("calm.txt").read_text().splitlines()
    return frozenset(line.partition("  ")[0] for line in lines if not line.startswith("#"))


def is_calm(item: pytest.Item) -> bool:
    return item.nodeid.partition("[")[0] in calm()


def is_left_to_the_other_face(item: pytest.Item) -> bool:
    return item.get_closest_marker("either_face") is not None and not has_turn(item.nodeid)


def on_other_kinds(items: list[pytest.Item], kinds: int) -> list[pytest.Item]:
    from tests.servers import ServerBinary, binaries  # noqa: PLC0415  # only that option needs it

    spared = {*binaries()[kinds:], *TOPOLOGIES}
    return [item for item in items if spared.intersection(kinds_of(item, ServerBinary, Topology))]


def kinds_of(item: pytest.Item, *kinds: type) -> list:
    call = getattr(item, "callspec", None)
    return [one for one in call.params.values() if isinstance(one, kinds)] if call else []
