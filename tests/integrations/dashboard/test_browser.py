"""The page in a real browser: what it shows, what it does, and what it never lets happen.

With ``FENCELOCK_SCREENSHOTS=1`` the pictures of the documentation are written anew.
"""

from __future__ import annotations

import re

import pytest

import fencelock
from tests.integrations.dashboard.conftest import TOKEN, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

# Playwright's loop runs in this thread, and no task of it waits for anything but the test.
pytestmark = pytest.mark.filterwarnings("ignore:a blocking call of fencelock.Client:RuntimeWarning")

HOSTILE = [
    '"><img src=x onerror=alert(1)>',
    "</td></table><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "a\u202egnp.exe\u200b",
    "with/slash?and=query#and%2Fmore",
    "<style>*{display:none}</style>",
]


@pytest.fixture
def board(run, page):
    """Lend the page of a dashboard that may revoke."""
    page.dashboard = run("--allow-revoke", FENCELOCK_DASHBOARD_TOKEN=TOKEN).url
    page.goto(page.dashboard)
    return page


def row(page, name):
    return page.locator("tbody tr", has=page.get_by_role("link", name=name, exact=True))


def cell(page, name, column):
    return row(page, name).locator(f".c-{column}")


def see(page, text):
    page.get_by_text(text).first.wait_for()


# --- what it shows --------------------------------------------------------------------------------


def test_a_lock_that_is_taken_appears_and_goes(board, client):
    see(board, "No lock is held or waited for.")
    with client.lock("orders:42"):
        row(board, "orders:42").wait_for()
        assert cell(board, "orders:42", "state").inner_text() == "held"
        assert cell(board, "orders:42", "label").inner_text() == "shop"
        assert re.fullmatch(r"[\d.]+s", cell(board, "orders:42", "lease").inner_text())
    row(board, "orders:42").wait_for(state="detached")


def test_a_waiter_is_counted_and_stands_in_the_line(board, client, waiter):
    with client.lock("orders:42"):
        waiter("orders:42")
        cell(board, "orders:42", "waiting").get_by_text("1", exact=True).wait_for()
        board.get_by_role("link", name="orders:42").first.click()

        line = board.locator("section.card", has=board.get_by_role("heading", name="Line"))
        line.get_by_text("cart").first.wait_for()
        assert "cart, for orders:42" in line.inner_text()
        see(board, "1 waiting")
        assert board.get_by_role("heading", level=1).inner_text() == "orders:42"


def test_a_cycle_is_shown_in_red_in_each_view(board, cycle):
    cycle("one", "two")

    board.locator("tr.bad").nth(1).wait_for()
    board.get_by_role("link", name="in a cycle now").click()
    see(board, "2 clients wait for each other in a cycle")
    assert board.locator(".graph .node.cycle").count() == 2
    assert board.locator(".graph path.arrow.cycle").count() == 2
    see(board, "waits for one since")
    board.get_by_role("link", name="Top blockers").click()
    board.locator("tr.bad").nth(1).wait_for()


def test_the_page_says_when_the_server_does_not_answer(own_server, run, page):
    with fencelock.Client(own_server.url) as client:
        lock = client.lock("orders:42", renew=False)
        assert lock.acquire()
        page.goto(run(url=own_server.url).url)
        row(page, "orders:42").wait_for()
        own_server.kill()
        page.get_by_role("alert").filter(has_text="This is the last state").wait_for()
        assert row(page, "orders:42").count() == 1
        page.locator('#live[data-state="stale"]').wait_for()
        assert re.fullmatch(r"updated \d+ s ago", page.locator("#live").inner_text())
        row(page, "orders:42").get_by_role("link").click()
        page.locator("rect.unseen").first.wait_for()
        own_server.restart()
        page.locator('#live[data-state="live"]').wait_for()
        with pytest.raises(fencelock.LeaseLost):
            lock.release()


# --- hostile names --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_or_label_is_only_text(board, client, waiter, name):
    with client.lock(name):
        waiter(name, label=name[:60])
        link = board.locator("tbody td.c-name a")
        link.wait_for()
        shown = link.inner_text()
        assert shown == "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in name)
        board.locator("tbody .c-waiting", has_text="1").wait_for()
        link.click()
        board.get_by_role("heading", level=1).get_by_text(shown, exact=True).wait_for()
        board.locator("tbody tr", has_text=", for").wait_for()
        for view in ("Who blocks whom", "Top blockers", "Events"):
            board.get_by_role("link", name=view).click()
            board.get_by_role("heading", name=view, level=1).wait_for()
        assert board.locator("main img, main script, main style, main iframe").count() == 0


# --- revoking -------------------------------------------------------------------------------------


def revoke(page, reason, token):
    page.get_by_role("button", name="Revoke …").first.click()
    page.get_by_label("Reason").fill(reason)
    page.get_by_label("Token").fill(token)
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()


def test_a_lock_is_revoked_with_a_reason_that_its_holder_reads(board, client, waiter):
    lock = client.lock("orders:42", ttl=6)
    assert lock.acquire()
    lease = lock.lease
    waiter("orders:42")
    board.goto(f"{board.dashboard}#/lock/orders%3A42")

    revoke(board, "web3 is down for good", TOKEN)

    see(board, "orders:42 was revoked")
    board.locator("dd", has_text="cart, for").wait_for()
    until(lambda: lease.lost)
    with pytest.raises(fencelock.LeaseLost, match="web3 is down for good"):
        lock.release()


def test_a_token_in_the_address_is_used_and_taken_out_of_it(run, page, client):
    dashboard = run(FENCELOCK_DASHBOARD_READ_TOKEN=TOKEN)
    with client.lock("orders:42"):
        page.goto(f"{dashboard.url}#token={TOKEN}")
        row(page, "orders:42").wait_for()
        assert page.url == f"{dashboard.url}#/"


def test_without_the_token_the_page_asks_for_it(run, page, client):
    with client.lock("orders:42"):
        page.goto(run(FENCELOCK_DASHBOARD_READ_TOKEN=TOKEN).url)
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Go on").click()
        row(page, "orders:42").wait_for()
        page.complaints[:] = [each for each in page.complaints if "401" not in each]


# --- keys, phones, colours ------------------------------------------------------------------------


def test_all_can_be_done_with_the_keyboard(board, client):
    locks = [client.lock(name) for name in ("one", "two", "three")]
    for lock in locks:
        assert lock.acquire()
    for lock in locks:  # a look may have come in between
        row(board, lock.name).wait_for()

    board.keyboard.press("j")
    board.keyboard.press("j")
    board.keyboard.press("Enter")
    board.get_by_role("heading", level=1).get_by_text("three").wait_for()
    board.get_by_role("button", name="Revoke …").wait_for()
    board.keyboard.press("r")
    board.get_by_role("dialog").wait_for()
    board.keyboard.press("Escape")
    board.keyboard.press("Escape")
    row(board, "one").wait_for()
    board.keyboard.press("/")
    board.keyboard.type("tw")
    row(board, "one").wait_for(state="detached")
    board.keyboard.press("Escape")
    board.keyboard.press("2")
    board.get_by_role("heading", name="Who blocks whom").wait_for()
    board.keyboard.press("?")
    board.get_by_role("heading", name="Keys").wait_for()
    board.keyboard.press("Escape")
    board.keyboard.press("p")
    see(board, "paused")
    for lock in locks:
        lock.release()


def test_the_focus_stays_while_the_table_changes(board, client):
    with client.lock("b"):
        row(board, "b").wait_for()
        board.keyboard.press("j")
        with client.lock("a"):
            row(board, "a").wait_for()
            assert board.evaluate("document.activeElement.textContent") == "b"


def test_a_link_shows_the_same_filter_state_and_order(board, client):
    long = "reports:" + "x" * 200
    with client.lock("orders:1"), client.lock("orders:2"), client.lock(f"{long}:7"):
        row(board, "orders:1").wait_for()
        assert board.locator("tbody a", has_text="…").inner_text().endswith(":7")
        board.get_by_role("searchbox").fill("orders")
        board.get_by_role("button", name="Held", exact=True).click()
        board.get_by_role("button", name="Name").click()
        board.get_by_role("button", name="Name").click()
        board.goto(board.url)
        board.reload()
        row(board, "orders:1").wait_for()
        assert board.url.endswith("#/?filter=orders&state=held&sort=-name")
        assert board.locator("tbody td.c-name").all_inner_texts() == ["orders:2", "orders:1"]
        assert board.get_by_role("searchbox").input_value() == "orders"


def test_names_that_differ_at_their_end_are_told_apart(board, client):
    names = [f"tenants:{'x' * 40}:orders:{number}" for number in (10001, 10002)]
    with client.lock(names[0]), client.lock(names[1]):
        for name in names:
            row(board, name).wait_for()
            end = row(board, name).locator(".c-name .tail")
            assert end.inner_text() == name[-12:]
            inner, outer = end.bounding_box(), cell(board, name, "name").bounding_box()
            assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
            start = row(board, name).locator(".c-name .head").bounding_box()
            assert abs(start["y"] - inner["y"]) < 4, "not on one line"


def test_on_a_phone_nothing_is_wider_than_the_screen(run, phone, client, waiter):
    url = run().url
    with client.lock("orders:" + "long" * 30):
        waiter("orders:" + "long" * 30)
        phone.goto(url)
        phone.locator("tbody .c-waiting", has_text="1").wait_for()
        for view in (
            "#/",
            "#/lock/orders:" + "long" * 30,
            "#/blockers",
            "#/events",
            "#/signals",
            "#/graph",
        ):
            phone.goto(url + view)
            phone.locator('#live[data-state="live"]').wait_for()
            wide = phone.evaluate("document.documentElement.scrollWidth - screen.width")
            assert wide <= 0, view
            here = phone.locator("nav a[aria-current]").bounding_box()
            assert here["x"] >= 0, view  # the tab of the view is seen
            assert here["x"] + here["width"] <= 390, view
        drawing = phone.locator(".graph svg").bounding_box()
        assert drawing["x"] + drawing["width"] <= 390
        # More tabs than fit: a shadow says so at the side where they are.
        assert phone.evaluate("(n => n.scrollWidth > n.clientWidth)(document.querySelector('nav'))")
        shadows = phone.evaluate("getComputedStyle(document.querySelector('nav')).backgroundImage")
        assert shadows.count("linear-gradient") == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_colours(run, page, client, waiter, scheme):
    page.emulate_media(color_scheme=scheme)
    with client.lock("orders:42"):
        waiter("orders:42")
        page.goto(run().url)
        page.locator("tbody .c-waiting", has_text="1").wait_for()
        for selector in (
            ".state.held",
            "tbody td.c-holder",
            "thead th button",
            ".tile span",
            "nav a[aria-current]",
        ):
            assert contrast(page, selector) >= 4.5, selector


def contrast(page, selector):
    """Return the contrast of a text against what is behind it, as WCAG reckons it."""
    return page.locator(selector).first.evaluate(
        """(node) => {
          const colour = (text) => text.match(/[\\d.]+/g).map(Number);
          const light = (text) => {
            const [r, g, b] = colour(text).map((part) => part / 255)
              .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          let behind = node;
          const back = () => getComputedStyle(behind).backgroundColor;
          while (colour(back())[3] === 0) behind = behind.parentElement;
          const both = [light(getComputedStyle(node).color), light(back())];
          return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
        }"""
    )


# --- foreign pages --------------------------------------------------------------------------------


# --- pictures for the documentation ---------------------------------------------------------------


@pytest.fixture
def scene(server, run, page, client, waiter, cycle):  # noqa: PLR0917 - fixtures, by name
    """Lend the address of a dashboard, and what there is to see on it."""
    url = run("--allow-revoke", url=server.tcp_url, FENCELOCK_DASHBOARD_TOKEN=TOKEN).url
    page.set_viewport_size({"width": 1100, "height": 640})
    page.goto(url)
    locks = [client.lock(name) for name in ("orders:42", "invoice:2026-11", "catalog:rebuild")]
    for lock in locks:
        assert lock.acquire()
    cycle("account:a", "account:b")
    waiter("orders:42", held="refund:7", label="refunds")
    held_for(page, "orders:42", 6)
    waiter("orders:42", label="billing")
    waiter("refund:7", label="mail")
    held_for(page, "orders:42", 12)
    yield url
    for lock in locks:
        lock.release()


@pytest.mark.slow
def test_the_pictures_of_the_documentation(scene, page, pictures):
    page.locator("tr.bad").nth(1).wait_for()
    page.screenshot(path=pictures / "locks.png")
    page.goto(f"{scene}#/graph")
    page.locator(".graph .node").nth(5).wait_for()
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=pictures / "graph-dark.png")
    page.emulate_media(color_scheme="light")
    page.goto(f"{scene}#/lock/orders%3A42")
    page.locator(".plot").nth(1).wait_for()
    page.screenshot(path=pictures / "lock.png")

    assert all(path.stat().st_size < 150_000 for path in pictures.glob("*.png"))


def held_for(page, name, seconds):
    """Wait until the page says that a lock has been held for so long."""
    shown = cell(page, name, "held")
    until(lambda: shown.count() and float(shown.inner_text().rstrip("s") or 0) >= seconds)
