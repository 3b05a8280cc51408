"""What the site is made of, without building it: its navigation, first pages, and links.

tests/integrations/site builds it, and looks at it in a browser.
"""

import re

import pytest

from tests.test_docs import PAGES, name_of
from tools import build_site

REPOSITORY = "https://x.org/me/fencelock"


def as_shown(name):
    """Return a page of the repository as the site has it."""
    return build_site.converted(build_site.ROOT / name, build_site.pages(), REPOSITORY)


def test_every_page_has_a_place_in_the_navigation():
    places = build_site.pages()
    shown = set(build_site.named(build_site.navigation(places, REPOSITORY)))

    assert {places[page] for page in PAGES} - shown == {"all-pages.md", "zh-CN.md"}


def test_a_page_that_the_index_does_not_name_is_refused_by_its_name():
    new = {build_site.DOCS / "how-to" / "new.md": "how-to/new.md"}

    with pytest.raises(build_site.Incomplete, match=r"docs/README\.md.*: how-to/new\.md$"):
        build_site.navigation(build_site.pages() | new, REPOSITORY)


@pytest.mark.parametrize("place", build_site.FRONT)
def test_a_first_page_is_a_sentence_a_picture_ten_lines_and_three_facts(place):
    readme, leads = build_site.FRONT[place]
    page = build_site.front_page(as_shown(readme), leads)
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    assert re.search(r"^# fencelock\n\n[^\n.。]+[.。]\n\{ \.sentence \}$", page, re.MULTILINE)
    assert page.count("![") == 1
    assert len(code.splitlines()) <= 10
    assert len(re.findall(r"^- \*\*", page, re.MULTILINE)) == 3


def test_links_lead_to_the_site_or_else_to_the_repository():
    readme = as_shown("README.md")

    assert "](explanation/guarantees.md)" in readme
    assert "](project/architecture.md)" in readme
    assert f"]({REPOSITORY}/blob/main/LICENSE)" in readme
    assert "/blob/main/verification/mutations/DEFECTS.md)" in as_shown("verification/README.md")


def test_no_page_has_a_word_of_our_tests_beside_its_code():
    marked = [name_of(page) for page in PAGES if "```python run" in page.read_text()]

    assert marked
    assert [name for name in marked if "```python run" in as_shown(name)] == []
