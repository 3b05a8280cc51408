"""A thousand locks and ten thousand waiters: what a refresh costs the server and the browser."""

import statistics
import time

import pytest

from fencelock._core.keys import LockKeys
from fencelock._core.look.show import NAMES_MAX as SHOWN_AT_ONCE
from tests.integrations.dashboard.conftest import until

redis = pytest.importorskip("redis")
pytest.importorskip("starlette.testclient")
pytest.importorskip("uvicorn")

from fencelock.dashboard.feed import COMMANDS_A_SECOND, HISTORY_SECONDS  # noqa: E402 - likewise

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:a blocking call of fencelock.Client:RuntimeWarning"),
]

LOCKS, WAITERS_OF_EACH = 1_000, 10
TTL_MS = 600_000


@pytest.fixture
def crowd(server, client, waiter):
    """Put the locks on the server, as copies of one that is really held and waited for."""
    with client.lock("sample", ttl=TTL_MS / 1000):
        waiter("sample")
        until(lambda: client.status("sample").waiting)
        with redis.Redis(unix_socket_path=str(server.socket)) as raw:
            copy(raw)
        yield


def copy(raw):
    keys = LockKeys("fencelock:", "sample")
    held, record = raw.get(keys.lock), raw.get(keys.all[1])
    (entry,) = raw.zrange(keys.all[2], 0, -1)
    at = time.time() * 1e6
    with raw.pipeline(transaction=False) as pipe:
        for number in range(LOCKS - 1):
            lock, record_key, queue, *_ = LockKeys("fencelock:", f"order:{number:04}").all
            pipe.set(lock, held, px=TTL_MS)
            pipe.set(
                record_key, record.replace(b'"MainThread"', b'"worker-%d"' % number), px=TTL_MS
            )
            pipe.zadd(queue, {waiting(entry, number, n): at + n for n in range(WAITERS_OF_EACH)})
            pipe.pexpire(queue, TTL_MS)
        # The real one has a real waiter, and so many more that there are ten thousand.
        pipe.zadd(
            keys.all[2], {waiting(entry, LOCKS, n): at + n for n in range(WAITERS_OF_EACH - 1)}
        )
        pipe.execute()


def waiting(entry, number, place):
    """Return another entry of a line: of another request, and of another thread."""
    first, rest = entry.split(b" ", 1)
    return b"%b%04d%02d %b" % (
        first,
        number,
        place,
        rest.replace(b"cart, for", b"%d-%d" % (number, place)),
    )


def asked(server):
    """Return how often each command ran that a look may consist of."""
    ours = {"evalsha", "zrevrangebyscore", "xrevrange", "scan", "keys"}
    return {name: times for name, times in server.commandstats().items() if name in ours}


def test_a_look_is_a_few_commands_and_a_message_to_each_client(server, run, crowd, browser):
    page = browser.new_page()
    page.goto(run().url)
    page.locator(".tile", has_text="held").get_by_text("1,000", exact=True).wait_for()
    page.locator(".tile", has_text="waiting").get_by_text("10,000", exact=True).wait_for()
    begun, before = time.monotonic(), asked(server)
    totals = [refresh(page) for _ in range(12)]
    after, passed = asked(server), time.monotonic() - begun
    page.close()

    more = {name: times - before.get(name, 0) for name, times in after.items()}
    looks, scripts = more["zrevrangebyscore"], more["evalsha"]
    assert more.get("scan", 0) == more.get("keys", 0) == 0
    assert more.get("xrevrange", 0) <= 1 + passed / HISTORY_SECONDS
    # A look has a command for the index and one for every 500 locks: a second has two of these.
    pages = -(-LOCKS // SHOWN_AT_ONCE)
    assert 1 <= looks <= 1 + passed * COMMANDS_A_SECOND / (1 + pages), (more, passed)
    # The holder's client and the waiter's are each asked who waits inside them, and each may
    # answer. The waiter by itself asks once a second at the most. One look was begun before.
    of_looks, of_waiter = (looks + 1) * (pages + 2 * 2), 1 + passed
    assert scripts <= of_looks + of_waiter, (more, passed)
    middle = statistics.median(totals)
    print(f"{passed:.1f} s: {more}; a refresh takes {middle:.0f} ms")  # noqa: T201 - for a reader with -s


def refresh(page):
    """Wait for the next refresh; return how long it took, in milliseconds."""
    last = page.locator("#cost").get_attribute("data-total")
    page.wait_for_function(
        "last => document.getElementById('cost').dataset.total !== last", arg=last
    )
    return float(page.locator("#cost").get_attribute("data-total"))
