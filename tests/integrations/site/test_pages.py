"""The site in a real browser: links, phones, contrast, search, colours; nothing from another host.

With ``FENCELOCK_SCREENSHOTS=FOLDER`` pictures of some pages are written there, to be looked at.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.nightly  # the site is built for it, in an environment of its own

ROOT = Path(__file__).resolve().parents[3]
BUILD_SECONDS = 170  # with its environment, the first time
# The first page, a guide, the reference of the API, and Chinese; in the browser's own order.
LOOKED_AT = (
    "",
    "how-to/use-fencing-tokens/",
    "reference/python/client/",
    "tutorial/first-lock.zh-CN/",
)
LINKS = "[...document.querySelectorAll('a[href]')].map(a => a.href.split('?')[0])"
NAMED = "[...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name)"
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
UNDESCRIBED = "[...document.images].filter(i => !i.alt).map(i => i.src)"
TOO_WIDE = "document.documentElement.scrollWidth > screen.width"
SCROLLED = """[...document.querySelectorAll('article pre > code')]
    .filter(code => code.scrollWidth > code.clientWidth).map(code => code.innerText)"""
PICTURE_RIGHT = """Math.max(...[...document.querySelectorAll('article img')]
    .map(image => image.getBoundingClientRect().right))"""
SCHEME = "document.body.dataset.mdColorScheme"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    """Build the site, and serve it; the browser comes first: without one there is nothing to do."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, ROOT / "dev.py", "docs", "--to", folder],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    handler = functools.partial(Quiet, directory=folder / "html")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", folder / "html"
        server.shutdown()
        thread.join()


def pages(folder):
    """Return the address of each page, below that of the site."""
    found = (path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.html"))
    return sorted("" if name == "." else f"{name}/" for name in found)


@pytest.mark.timeout(600)  # a hundred pages
def test_each_page_fits_a_phone_and_its_links_lead_somewhere(site, phone):
    base, folder = site
    # The index of the search is a megabyte, which each page would read for nothing.
    nothing = {"config": {"lang": ["en"], "separator": " "}, "items": []}
    phone.route("**/search*.json", lambda route: route.fulfill(json=nothing))
    foreign, names, wanted, wrong = [], {}, {}, []
    phone.on("request", lambda asked: foreign.append(asked.url))

    for name in pages(folder):
        phone.goto(base + name)
        names[base + name] = {unquote(each) for each in phone.evaluate(NAMED)}
        wanted[name] = {unquote(link) for link in phone.evaluate(LINKS) if link.startswith(base)}
        wrong += [(name, "too wide")] if phone.evaluate(TOO_WIDE) else []
        wrong += [
            (name, image) for script in (BROKEN, UNDESCRIBED) for image in phone.evaluate(script)
        ]

    for name, links in wanted.items():
        for page, _, heading in (link.partition("#") for link in links):
            if page not in names and not (folder / page.removeprefix(base)).is_file():
                wrong.append((name, page))
            elif heading and heading not in names[page]:
                wrong.append((name, f"{page}#{heading}"))
    assert wrong == []
    assert [url for url in foreign if not url.startswith((base, "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_a_page_shows_can_be_read(site, browser, new_page, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = new_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page.goto(site[0] + name)

    if folder := os.environ.get("FENCELOCK_SCREENSHOTS"):
        for width in (390, 1280):
            shown = new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
            shown.goto(site[0] + name, wait_until="networkidle")
            shown.screenshot(path=Path(folder) / f"{name.replace('/', '-')}{width}-{scheme}.png")

    found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})

    assert page.evaluate(SCHEME) == {"light": "default", "dark": "slate"}[scheme]
    assert found.response["violations"] == [], found.generate_report()


@pytest.mark.parametrize(
    ("start", "words", "place"),
    [
        ("", "围栏令牌", "/how-to/use-fencing-tokens.zh-CN/"),
        ("", "fencing token", "/how-to/use-fencing-tokens/"),
        ("index.zh-CN/", "fencelock", "/index.zh-CN/"),
        ("index.zh-CN/", "ElastiCache", "/reference/managed-servers/"),
    ],
)
def test_the_search_finds_what_a_reader_types_in_the_language_of_the_page(
    site, page, start, words, place
):
    page.goto(site[0] + start, wait_until="networkidle")
    page.locator(".md-search button").first.click()
    page.locator("input:visible").fill(words)
    page.locator(f"a:visible[href*='{place}']").first.wait_for()

    found = [link.get_attribute("href") for link in page.locator("a:visible[href*='?h=']").all()]
    if words.isascii():
        assert start or not [link for link in found if "zh-CN" in link]


def test_a_hundred_characters_of_code_fit_a_window_and_the_first_picture_a_phone(
    site, new_page, phone
):
    """tests/test_docs.py has it that no line is longer."""
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto(site[0] + "how-to/use-fencing-tokens/")
    page.evaluate("document.querySelector('article pre > code').textContent = 'm'.repeat(100)")
    assert page.evaluate(SCROLLED) == []

    for name in ("", "index.zh-CN/"):
        phone.goto(site[0] + name)
        assert phone.evaluate(PICTURE_RIGHT) <= phone.viewport_size["width"]


def test_code_is_copied_and_colours_are_switched_with_one_click(site, new_page):
    page = new_page(permissions=["clipboard-read", "clipboard-write"], color_scheme="light")
    page.goto(site[0])
    page.locator("pre").first.hover()
    page.locator("button.md-clipboard, [data-md-type=copy]").first.click()
    page.locator("label[title='Switch to dark mode']").click()

    page.wait_for_function(f"{SCHEME} === 'slate'")
    assert page.evaluate("navigator.clipboard.readText()").startswith("python3 dev.py demo\n")
