"""A server that the tests of all frameworks share, one for tests that stop it, and a browser."""

import os
import shutil

import pytest

import fencelock
from tests.servers import Server

PATIENCE = 20.0  # of a browser


@pytest.fixture(scope="session")
def shared_server():
    with Server() as server:
        yield server


@pytest.fixture
def server(shared_server):
    """Lend an empty server that no test may stop."""
    shared_server.flushall()
    return shared_server


@pytest.fixture
def own_server():
    """Lend a server that this test may stop and kill."""
    with Server() as server:
        yield server


@pytest.fixture
def client(server):
    with fencelock.Client(server.url) as made:
        yield made


# --- the browser ----------------------------------------------------------------------------------


def chromium():
    """Return the path of the system's Chromium, or None."""
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")  # its loop warns of blocking calls in later tests
def browser():
    if chromium() is None:
        pytest.skip("Chromium is not installed on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        # Root has no sandbox, and the page is our own.
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=chromium(), args=args)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser):
    """Lend what opens pages on which any error or complaint fails the test."""
    contexts, complaints = [], []

    def open_one(**options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else 0)
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.complaints = complaints
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(new_page):
    return new_page()


@pytest.fixture
def phone(new_page):
    """Lend a page as a phone has it."""
    return new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
