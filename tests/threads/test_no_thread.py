"""No thread can be started: a limit of the system, or the end of the interpreter (I9)."""

import sys
import threading

import pytest

from fencelock import NotRenewable
from tests.kinds import MADE
from tests.threads.state import program, thread, until_others_ended, waiting
from tests.waiting import SOON, until


@pytest.fixture(params=["a limit", "an isolated interpreter"])
def without_threads(request, monkeypatch, client):
    """Let the library's threads end, and start none from here on."""
    begins = threading.Thread.__init__

    def refused(self, daemon=True):
        if daemon:
            raise RuntimeError("can't start new thread")

    def begun(self, *args, daemon=None, **given):
        refused(self, daemon)
        begins(self, *args, **given)

    client.lock("first").locked()  # it is connected
    until_others_ended()
    if request.param == "a limit":
        monkeypatch.setattr(threading.Thread, "start", refused)
    else:  # which has no daemons
        monkeypatch.setattr(threading.Thread, "__init__", begun)
        monkeypatch.setattr(threading.Thread, "daemon", property(lambda _: False, refused))


KINDS = MADE | {"on_lost": lambda client: client.lock("a", renew=False, on_lost=lambda _: None)}


@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"permits"}))
def test_a_lease_that_could_not_be_renewed_is_given_back(client, server, prefix, kind):
    """At once, by the thread that asked: it does not block others for its ttl."""
    handle = KINDS[kind](client)
    with pytest.raises(NotRenewable, match="no thread can be started") as error:
        handle.acquire()
    assert isinstance(error.value, RuntimeError)
    assert error.value.name in {"a", "a-b"}
    left = [key for key in server.command("KEYS", f"{prefix}*") if "~" not in key]
    assert left == []
    assert client._port.renewals.holds == 0
    with pytest.raises(NotRenewable), handle:
        pass


@pytest.mark.usefixtures("without_threads")
def test_a_fixed_lease_needs_no_thread(client, server, prefix):
    with client.lock("a", renew=False) as lease:
        lease.check()
        assert server.command("EXISTS", f"{prefix}a") == 1
    assert server.command("EXISTS", f"{prefix}a") == 0


def test_a_waiter_that_is_granted_gives_it_back(client, server, prefix, monkeypatch):
    """Its place in line is gone as well, and the next one is granted."""
    held, raised = client.lock("a", renew=False), []

    def wait():
        with pytest.raises(NotRenewable) as error:
            client.lock("a").acquire()
        raised.append(error)

    until_others_ended()
    waits = threading.Thread(target=wait)
    usual = threading.Thread.start

    def refused(self):
        if self is not waits:
            raise RuntimeError("can't start new thread")
        usual(self)

    monkeypatch.setattr(threading.Thread, "start", refused)
    held.acquire()
    waits.start()
    until(lambda: waiting(server, prefix) == 1)
    held.release()
    waits.join(SOON)
    assert len(raised) == 1
    assert server.command("EXISTS", f"{prefix}a") == 0
    monkeypatch.undo()
    assert not thread(client.lock("a").locked).join(SOON)


# What runs at exit may use locks: those that need no thread in any Python.
AT_EXIT = """
import atexit, sys, fencelock
url, prefix = sys.argv[1:]
client = fencelock.Client(url, key_prefix=prefix)

@atexit.register
def last():
    with client.lock("a", renew=False):
        print("fixed", flush=True)
    try:
        with client.lock("a"):
            pass
    except fencelock.NotRenewable:
        pass
    assert not client.lock("a").locked()
    print("free", flush=True)
"""


def test_at_the_end_of_the_interpreter(server, prefix):
    with program(AT_EXIT, server.url, prefix) as running:
        out, err = running.communicate()
    assert (running.returncode, out, err) == (0, "fixed\nfree\n", "")


ISOLATED = """
import sys
try:
    import _interpreters as interpreters
except ImportError:  # Python 3.12
    import _xxsubinterpreters as interpreters
text = f"import sys; sys.path[:], url, prefix = {sys.path}, {sys.argv[1]!r}, {sys.argv[2]!r}" + '''
import fencelock
client = fencelock.Client(url, key_prefix=prefix)
with client.lock("a", renew=False):
    assert not fencelock.Client(url, key_prefix=prefix).lock("a").acquire(blocking=False)
try:
    client.lock("a").acquire()
except fencelock.NotRenewable:
    print("refused", flush=True)
'''
run = getattr(interpreters, "exec", None) or interpreters.run_string
assert run(interpreters.create(), text) is None
"""


@pytest.mark.skipif(sys.version_info < (3, 13), reason="3.12 may crash at the end of one")
def test_in_an_isolated_interpreter(server, prefix):
    """It has no daemon threads: what is renewed is refused, and everything else works."""
    with program(ISOLATED, server.url, prefix) as running:
        out, err = running.communicate()
    assert (running.returncode, out, err) == (0, "refused\n", "")
    assert server.command("GET", prefix + "a") is None


HEAD = """
import atexit, sys, threading

def at_the_very_end():
    {late}

atexit.register(at_the_very_end)  # after what the library does at the end: it is imported later
import fencelock
from fencelock._runtime.mutex import mutex

client = fencelock.Client(sys.argv[1], key_prefix=sys.argv[2])
with client.lock("first"):
    pass

def rows(lock):
    with lock:
        yield 1
        yield 2

"""
# A generator of the module is closed while the interpreter is torn down, an object just before.
LEFT = {
    "a generator": "them = rows(client.lock('a'))\nnext(them)",
    "a generator of an rlock": "them = rows(client.rlock('a'))\nnext(them)",
    "an error in a loop": "for row in (them := rows(client.lock('a'))): raise ValueError",
    "an object": """
class Report:
    def __init__(self):
        self.lock = client.lock("a")
        self.lock.acquire()
    def __del__(self):
        self.lock.release()
report = Report()""",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_a_release_while_the_interpreter_is_torn_down(server, prefix, text):
    """It is sent by the thread that ends, as no other runs any more; the program ends."""
    with program(HEAD.format(late="pass") + text, server.url, prefix) as running:
        running.communicate()
    assert server.command("GET", prefix + "a") is None


def test_a_thread_that_ended_inside_the_mutex_holds_up_no_end(server, prefix):
    """Threads end wherever they are once the interpreter is torn down."""
    late = """
    go.set()
    inside.wait()"""
    stays = """
go, inside = threading.Event(), threading.Event()
stay = "go.wait()\\nwith mutex(): inside.set(); threading.Event().wait()"
names = {"mutex": mutex, "go": go, "inside": inside, "threading": threading}  # those here must end
threading.Thread(target=exec, args=(stay, names), daemon=True).start()
"""
    text = HEAD.format(late=late) + stays + LEFT["a generator"]
    with program(text, server.url, prefix) as running:
        running.communicate()
    assert server.command("GET", prefix + "a") is not None
    server.command("FLUSHDB")  # it ends by its ttl


INTERRUPTED = """
import sys, threading, fencelock
from fencelock._core.lock.hold import Hold
from fencelock._io import cleanup_queue

client = fencelock.Client(sys.argv[1], key_prefix=sys.argv[2])
done, usual = cleanup_queue._do, Hold.retire

def late(*job):  # as over a slow network
    threading.Event().wait(0.2)
    done(*job)

def strikes(*args):
    Hold.retire = usual
    raise KeyboardInterrupt

cleanup_queue._do = late
lock = client.lock("a")
lock.acquire()
Hold.retire = strikes
lock.release()
"""


def test_what_ctrl_c_interrupted_is_sent_before_the_process_ends(server, prefix):
    """I9: the lock is not held for the rest of its ttl."""
    with program(INTERRUPTED, server.url, prefix) as running:
        _, err = running.communicate()
    assert "KeyboardInterrupt" in err
    assert server.command("GET", prefix + "a") is None
