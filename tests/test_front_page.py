"""The README, its translation, its numbers, its links on a package index; and all pictures."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from tests.test_docs import PAGES, blocks
from tests.test_tidy import links, without_code

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
EXPLANATION = ROOT / "docs" / "explanation"
DOCS = ROOT / "docs"
CHINESE = ".zh-CN"
TRANSLATIONS = sorted([*ROOT.glob(f"*{CHINESE}.md"), *DOCS.rglob(f"*{CHINESE}.md")])


# --- the pictures ---------------------------------------------------------------------------------


def drawing():
    """Return the program that draws the pictures."""
    place = ROOT / "docs" / "images" / "draw.py"
    spec = importlib.util.spec_from_file_location("drawing", place)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def test_the_pictures_are_what_their_text_makes():
    program = drawing()
    stale = [
        story.picture.name
        for story in program.stories()
        if not story.picture.exists()
        or story.picture.read_text(encoding="utf-8") != program.drawing(story)
    ]

    assert stale == [], "run: python docs/images/draw.py"
    drawn = {story.picture for story in program.stories()}
    assert set(program.HERE.glob("*.svg")) == drawn


def test_each_picture_is_on_a_page_that_describes_it_by_its_label():
    program = drawing()
    shown = "".join(page.read_text() for page in PAGES)
    missing = [
        story.picture.name
        for story in program.stories()
        if not re.search(re.escape(f"![{story.label}](") + rf"\S*/{wide(story)}\)", shown)
    ]

    assert missing == []


def wide(story):
    """Return the picture that pages name: the site has its form for phones beside it."""
    return story.picture.name.replace(".phone.", ".")


def test_a_picture_tells_one_story_in_all_languages():
    program = drawing()
    stories = {story.picture.name: story.events for story in program.stories()}
    for name, events in stories.items():
        original = stories[untranslated(name)]
        assert [event[:-1] for event in events] == [event[:-1] for event in original]


def test_every_class_of_a_picture_has_a_colour_in_light_and_in_dark_mode():
    program = drawing()
    light, _, dark = program.STYLE.partition("@media (prefers-color-scheme: dark)")
    for story in program.stories():
        used = set(re.findall(r'class="(\w+)"', program.drawing(story))) - {"title"}
        for style in (light, dark):
            assert used - set(re.findall(r"\.(\w+)\b[^}]*?(?:fill|stroke):", style)) == set()


# --- the translations -----------------------------------------------------------------------------


def original(page):
    return page.with_name(untranslated(page.name))


def untranslated(target):
    """Return a link as the original has it: pages and pictures may exist in both languages."""
    return target.replace(f"{CHINESE}.", ".")


def numbers(page):
    """Yield the numbers of each section, and of each cell of its tables.

    Words and their order differ from language to language, numbers do not.
    """
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", without_code(page.read_text()))
    for section in re.split(r"^#+ ", prose, flags=re.MULTILINE):
        yield sorted(set(figures(section)))
        for row in re.findall(r"^\|.*", section, re.MULTILINE):
            yield [sorted(figures(cell)) for cell in row.split("|")]


def figures(text):
    return re.findall(r"\d+(?:[.,]\d+)*", text)


@pytest.fixture(params=TRANSLATIONS, ids=lambda page: page.relative_to(ROOT).as_posix())
def translated(request):
    return request.param


def test_a_translation_has_the_code_of_its_original(translated):
    """But for the comments, which may be translated, too."""
    there, here = (
        [(kind, re.sub(r" *#.*", "", code)) for kind, code, *_ in blocks(one)]
        for one in (original(translated), translated)
    )

    assert here == there


def test_a_translation_has_the_links_of_its_original(translated):
    """Each leads to the other in its first lines; but for that they lead to the same places."""
    page = original(translated)
    there, here = (sorted(map(untranslated, links(one.read_text()))) for one in (page, translated))

    assert here == there
    assert f"]({translated.name})" in page.read_text()[:200]
    assert f"]({page.name})" in translated.read_text()[:200]


def test_a_translation_leads_to_translations_where_there_are_some(translated):
    pages = [target.partition("#")[0] for target in links(translated.read_text())]
    twins = {page: page.removesuffix(".md") + f"{CHINESE}.md" for page in pages}
    english = [page for page in pages if (translated.parent / twins[page]).is_file()]

    assert english == [original(translated).name]


def test_a_translation_has_the_sections_and_numbers_of_its_original(translated):
    pages = original(translated), translated
    there, here = (
        re.findall(r"^#+(?= )", without_code(one.read_text()), re.MULTILINE) for one in pages
    )

    assert here == there
    assert list(numbers(translated)) == list(numbers(original(translated)))


INDEX = DOCS / "zh-CN.md"


@pytest.mark.parametrize("page", [*TRANSLATIONS, INDEX], ids=lambda page: page.name)
def test_a_chinese_page_has_chinese_punctuation(page):
    """Full width beside Chinese, no italics, and letters at the ends of what is bold there."""
    prose = re.sub(r"`[^`\n]*`", "`", without_code(page.read_text()))
    wrong = re.findall(r".{,9}(?:[一-龥`][,;:!?]|[,;:!?(][一-龥]|(?<!\*)\*[一-龥]).{,9}", prose)
    bold = re.findall(r"\w?\*\*.+?\*\*\w?", prose)
    plain = [each for each in bold if re.search(r"^\w\*\*[^\w]|[^\w]\*\*\w$", each)]

    assert (wrong, plain) == ([], [])


def test_the_chinese_index_has_every_translation():
    leads = {(DOCS / target).resolve() for target in links(INDEX.read_text()) if CHINESE in target}

    assert sorted(leads) == TRANSLATIONS


# --- the numbers ----------------------------------------------------------------------------------

# Row of the README → rows of the page that measured it; columns are libraries, and the best other.
FAULTS = {"faults with a wrong outcome, threads": "**rows with a V, O, H or W**"}
SPEED = {
    "acquire and release, threads": ("`uncontended-threads`",),
    "release until the waiter in another process runs": ("`handoff-1`",),
    "100 tasks that all want one lock": ("`cohort-asyncio-100`", "`contended-asyncio-100`"),
}
BEST = "best other library"


def tables(page):
    """Yield the rows of every table of a page: the first cell, and the others by their columns."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in lines(table))
        for row in rows:
            yield row[0], dict(zip(head[1:], row[1:], strict=True))


def lines(table):
    """Return the rows of a table; a bar that is escaped is not a border."""
    return table.replace(r"\|", " ").splitlines()


def shown(label):
    """Return the cells of a row of the README."""
    return next(cells for first, cells in tables(README) if first == label)


@pytest.mark.parametrize("label", FAULTS)
def test_what_the_readme_says_of_faults_was_measured(label):
    page = EXPLANATION / "peers-under-faults.md"
    measured = [cells for first, cells in tables(page) if first.startswith(FAULTS[label])]

    for column, told in shown(label).items():
        peer, seen = told.split(" ", 1) if column == BEST else (column, told)
        found = [cells[peer] for cells in measured if peer in cells]
        assert any(seen.strip("*") in cell for cell in found), (peer, found)


@pytest.mark.parametrize("label", SPEED)
def test_what_the_readme_says_of_speed_was_measured(label):
    page = EXPLANATION / "performance.md"
    rows = [cells for first, cells in tables(page) if first.split(",")[0] in SPEED[label]]
    where = " ".join(cell for cells in rows for cell in cells.values())
    for told in shown(label).values():
        for part in re.findall(r"[a-z][a-z-]+|\d[\d.,]*", told):
            assert re.search(rf"(?<![\d.,]){re.escape(part)}(?![\d.,])", where), (part, where)


def test_the_three_facts_of_the_readme_were_measured():
    readme, page = README.read_text(), EXPLANATION / "peers-under-faults.md"
    rows = [(first, cells) for first, cells in tables(page) if "redis-py" in cells]
    facts = {
        "The reply of acquire is lost, the connection reset": "**O 5/5** (57.1 s), **W 5/5**",
        "The holder is killed; the library's default ttl": "**O 5/5** (for ever)",
        "The holder is frozen beyond its lease, then resumed": "**V 5/5**",
    }
    for event, seen in facts.items():
        assert next(cells for first, cells in rows if first.startswith(event))["redis-py"] == seen
    version = re.search(r"redis-py ([\d.]+\d)", page.read_text())[1]
    assert f"redis-py {version}" in readme
    assert readme.count("5 of 5 runs") == len(facts)
    assert "57.1 s" in readme


# Page that quotes figures → pages that measured them.
QUOTED = {
    "why-not-redis-py": ("peers-under-faults", "performance"),
    "do-i-need-redlock": ("failovers", "guarantees", "performance", "../how-to/use-a-quorum"),
}


@pytest.mark.parametrize("page", QUOTED)
def test_what_an_answer_quotes_was_measured(page):
    measured = "".join((EXPLANATION / f"{name}.md").read_text() for name in QUOTED[page])
    measured = re.sub(r"(\d)/(?=\d)", r"\1 of ", measured)
    said = without_code((EXPLANATION / f"{page}.md").read_text())
    figures = re.findall(r"\d+ of \d+|\d+[.,][\d.,]*\d|\d{3,}", re.sub(r"`[^`\n]*`", "", said))

    assert len(figures) > 10
    assert [one for one in figures if not has_figure(measured, one)] == []


def has_figure(text, figure):
    return re.search(rf"(?<![\d.,]){re.escape(figure)}(?![.,]?\d)", text) is not None


# --- the package's page on an index ---------------------------------------------------------------


def metadata(repository):
    """Return what an index shows when the repository is there."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    config["tool"]["hatch"]["metadata"]["hooks"]["custom"] = {"repository": repository}
    return ProjectMetadata(str(ROOT), PluginManager(), config)


def test_the_package_s_page_and_urls_lead_to_the_repository():
    built = metadata("https://x.org/me/fencelock")
    version, page = built.version, built.core.readme

    assert list(links(page)) == []
    assert f"](https://x.org/me/fencelock/blob/v{version}/docs/explanation/guarantees.md)" in page
    assert f"](https://x.org/me/fencelock/raw/v{version}/docs/images/lease.svg)" in page
    assert page.count("](https://x.org/") == len(list(links(README.read_text())))
    assert "python3 dev.py demo" in page
    assert set(built.core.urls) == {"Documentation", "Changelog", "Issues", "Source"}
    assert all(url.startswith("https://x.org/me/fencelock") for url in built.core.urls.values())


def test_the_address_stands_in_one_place():
    built = ProjectMetadata(str(ROOT), PluginManager())
    repository = built.core.urls["Source"]
    places = [
        path
        for path in ROOT.glob("*.*")
        if path.is_file() and repository in path.read_text(encoding="utf-8")
    ]

    assert places == [ROOT / "pyproject.toml"]
