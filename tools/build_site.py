"""Build the documentation as a site: ``python3 dev.py docs``.

python3 dev.py docs [--to FOLDER]

``docs/`` is written for readers of the repository. This makes of it what Zensical takes: a copy
whose blocks have no words of our tests, and whose links lead to the site, or else to the
repository. The navigation is that of docs/README.md and docs/zh-CN.md; the first page is the
beginning of the README. Pictures are drawn anew. A warning is an error. No network is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX, CHINESE_INDEX = DOCS / "README.md", DOCS / "zh-CN.md"
WORK = ROOT / "build" / "site"
CHINESE = "zh-CN.md"
SHOWN = (".md", ".svg", ".png", ".css", ".yml", ".json")  # what a site has of docs/
# Pages outside docs/ → their place in the site.
BESIDE = {
    "README.md": "overview.md",
    "README.zh-CN.md": "overview.zh-CN.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "verification/README.md": "project/verification.md",
    "docs/README.md": "all-pages.md",
}
PROJECT = {"README": "README.md", "Changes": "CHANGELOG.md", "Security": "SECURITY.md"}
# A link to a file; code, in which there is none, is passed by.
LINK = re.compile(
    r"^(?P<fence> *```+).*?^(?P=fence)$|`[^`\n]*`"
    r"|(?P<words>!?\[[^\]]*\])\((?![a-z]+:|#)(?P<link>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
# A paragraph's last line before a list, which Zensical wants an empty line between.
LIST = re.compile(
    r"^(?P<fence> *```+).*?^(?P=fence)$"
    r"|^(?P<before>(?![-*] |\d+\. )[^\s|>#][^\n]*\n)(?=(?:[-*]|1\.) )",
    re.MULTILINE | re.DOTALL,
)
PICTURE = re.compile(r"^(!\[[^\]]*\]\((?P<file>[^)\s]+)\.svg\))$", re.MULTILINE)
FENCE = re.compile(r"^( *```+python) (?:run|stub)$", re.MULTILINE)
# The first page in each language: where it comes from, and what leads on from it.
FRONT = {
    "index.md": (
        "README.md",
        {
            "Your first lock": "tutorial/first-lock.md",
            "What it guarantees": "explanation/guarantees.md",
            "Questions": "questions.md",
            "All pages": "all-pages.md",
            "简体中文": "index.zh-CN.md",
        },
    ),
    "index.zh-CN.md": (
        "README.zh-CN.md",
        {
            "第一把锁": "tutorial/first-lock.zh-CN.md",
            "全部页面": "zh-CN.md",
            "English": "index.md",
        },
    ),
}


class Incomplete(Exception):
    """A page that no reader of the site could find, or a part of one that is not there."""


# --- pages ----------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Return the files that the site shows: each with its place there."""
    found = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*"))}
    found = {path: place for path, place in found.items() if path.suffix in SHOWN}
    return found | {ROOT / name: place for name, place in BESIDE.items()}


def converted(path: Path, places: dict[Path, str], repository: str) -> str:
    """Return a page as the site has it."""
    text = FENCE.sub(r"\1", path.read_text(encoding="utf-8"))
    text = re.sub(r"^( *```)crontab$", r"\1text", text, flags=re.MULTILINE)
    text = LIST.sub(lambda found: found[0] + ("\n" if found["before"] else ""), text)

    def lead(found: re.Match[str]) -> str:
        if found["link"] is None:
            return code_in_table(found[0]) if r"\|" in found[0] and not found["fence"] else found[0]
        words, (name, mark, heading) = found["words"], found["link"].partition("#")
        target = (path.parent / name).resolve()
        if target in places:
            return f"{words}({relative(places[path], places[target])}{mark}{heading})"
        inside = target.relative_to(ROOT).as_posix()
        return f"{words}({repository}/blob/main/{inside}{mark}{heading})"

    return LINK.sub(lead, text)


def code_in_table(code: str) -> str:
    """Return code whose bars are not borders of a table's cells."""
    return f"<code>{escape(code.strip('`'), quote=False).replace(chr(92) + '|', '&#124;')}</code>"


def for_phones(text: str, place: str) -> str:
    """Return a page whose pictures have their forms for narrow screens beside them."""

    def both(found: re.Match[str]) -> str:
        if not (DOCS / Path(place).parent / f"{found['file']}.phone.svg").is_file():
            return found[0]
        narrow = found[1].removesuffix(".svg)") + ".phone.svg)"
        return f"{found[1]}{{ .wide }}{narrow}{{ .phone }}"

    return PICTURE.sub(both, text)


def relative(page: str, target: str) -> str:
    """Return a link from one place of the site to another."""
    return "../" * page.count("/") + target


# --- the first page -------------------------------------------------------------------------------


def front_page(page: str, leads: dict[str, str]) -> str:
    """Return the first screen of a README, and the three facts that it gives."""
    screen = first(r"\A# [^\n]*\n(.*?)^## ", page, "first screen")
    sentence = first(r"^([^#\[|`\n.。]+[.。])", screen, "sentence")
    blocks, bar, readers = screen.partition(sentence)[2].partition("\n| ")
    section = first(r"^(## (?:(?!^## ).)*?^- \*\*(?:(?!^## ).)*)", page, "three facts")
    claim, *facts = section.rstrip().split("\n- ")
    buttons = " ".join(f"[{words}]({place}){{ .md-button }}" for words, place in leads.items())
    cards = "\n\n".join(f"- {indented(fact)}" for fact in facts)
    return (
        "---\nhide:\n  - navigation\n  - toc\n---\n\n# fencelock\n\n"
        f"{sentence}\n{{ .sentence }}\n\n{buttons}\n\n"
        f'<div class="beside" markdown>\n\n{blocks.strip()}\n\n</div>\n'
        f"{bar}{readers.strip()}\n\n{claim}\n"
        f'<div class="grid cards" markdown>\n\n{cards}\n\n</div>\n'
    )


def first(form: str, page: str, name: str) -> str:
    """Return the first of what a page must have."""
    found = re.search(form, page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise Incomplete(f"the README has no {name} for the first page of the site")
    return found[1]


def indented(text: str) -> str:
    """Return a list's item whose further lines belong to it."""
    return re.sub(r"\n *", "\n    ", text)


# --- the navigation -------------------------------------------------------------------------------


def navigation(places: dict[Path, str], repository: str) -> list[Any]:
    """Return the navigation: the groups of both indexes, and the project's pages.

    Raises:
        Incomplete: a page that is in neither.
    """
    own = {path: place for path, place in places.items() if path.suffix == ".md"}
    chinese = {path for path in own if path.name.endswith(CHINESE)}
    english = {path: own[path] for path in own.keys() - chinese}
    nav: list[Any] = [{"fencelock": "index.md"}, *groups(INDEX, english)]
    project = [{words: own[ROOT / name]} for words, name in PROJECT.items()]
    nav.append({"Project": [*project, {"Source": repository}]})
    first = [{"首页": "index.zh-CN.md"}, {"README": "overview.zh-CN.md"}]
    translated = groups(CHINESE_INDEX, {path: own[path] for path in chinese})
    nav.append({"中文": [*first, *translated]})
    missing = sorted(set(own.values()) - set(named(nav)) - {"all-pages.md", "zh-CN.md"})
    if missing:
        raise Incomplete(
            "these pages are not in the navigation of the site, which is made of docs/README.md and"
            f" docs/zh-CN.md; name them there: {', '.join(missing)}"
        )
    return nav


def groups(index: Path, own: dict[Path, str]) -> Iterator[dict[str, Any]]:
    """Yield each group of an index, its parts, and those of the pages that it names, in order."""
    for text in index.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = text.partition("\n")[0].partition(":")[0]
        group: list[Any] = []
        part = group
        for label, words, link in re.findall(
            r"^(\w[\w 、]+)[:\uff1a]$|\[([^\]]+)\]\(([^)#:]+\.md)\)", text, re.MULTILINE
        ):
            path = (DOCS / link).resolve() if link else None
            if label:
                part = []
                group.append({label: part})
            elif path in own:
                part.append({words: own[path]})
        if group:
            yield {title: group}


def named(nav: list[Any]) -> Iterator[str]:
    """Yield every page of a navigation."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for inside in entry.values():
                yield from named(inside if isinstance(inside, list) else [inside])


def as_toml(value: Any) -> str:
    """Return a navigation as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{as_toml(key)} = {as_toml(inside)}" for key, inside in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False)


# --- the languages --------------------------------------------------------------------------------


def split_by_language(html: Path) -> None:
    """Have each page say its language, and search the pages of that language.

    Zensical has one index for all languages, whose name its script has. A search from a Chinese
    page gets an index of its own.

    Raises:
        Incomplete: the script of this Zensical does not name the index.
    """
    (script,) = html.glob("assets/javascripts/bundle.*.min.js")
    text, own = script.read_text(encoding="utf-8"), "bundle.zh-CN.min.js"
    if '"search.json"' not in text:
        raise Incomplete(f"{script.name} does not load search.json: how does it search now?")
    chinese = text.replace('"search.json"', '"search.zh-CN.json"')
    script.with_name(own).write_text(chinese, encoding="utf-8")
    index = html / "search.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    for name, items in by_language(found["items"]).items():
        (html / name).write_text(json.dumps({**found, "items": items}, ensure_ascii=False))
    for page in html.glob("**/*zh-CN/index.html"):
        text = page.read_text(encoding="utf-8").replace(script.name, own)
        page.write_text(text.replace('<html lang="en"', '<html lang="zh-CN"', 1), encoding="utf-8")


def by_language(items: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the two indexes.

    From English pages a Chinese one is found by its Chinese words only, so that "ttl" finds none.
    From Chinese pages an English one is found if it is not translated.
    """

    def page(item: dict[str, Any]) -> str:
        return str(item["location"]).partition("#")[0]

    chinese = [item for item in items if page(item).endswith("zh-CN/")]
    english = [item for item in items if not page(item).endswith("zh-CN/")]
    translated = {page(item).replace(".zh-CN/", "/") for item in chinese} | {"", "all-pages/"}
    more = [item for item in english if page(item) not in translated]
    found_by_chinese = [
        {**item, "title": only_chinese(item["title"]), "text": only_chinese(item["text"])}
        for item in chinese
    ]
    return {"search.json": english + found_by_chinese, "search.zh-CN.json": chinese + more}


def only_chinese(text: str) -> str:
    """Return a text without its tags and its Latin words."""
    return " ".join(re.sub(r"<[^>]*>|&\w+;|[\x21-\x7e]+", " ", text).split())


# --- the build ------------------------------------------------------------------------------------


def prepare(work: Path) -> None:
    """Write what Zensical reads: the pages, and its settings with the navigation."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository = config["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    places = pages()
    written = {
        place: converted(path, places, repository)
        for path, place in places.items()
        if path.suffix == ".md"
    }
    for place, (readme, leads) in FRONT.items():
        written[place] = front_page(written[BESIDE[readme]], leads)
    shutil.rmtree(work, ignore_errors=True)
    for path, place in places.items():
        target = work / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if place not in written:
            shutil.copyfile(path, target)
    for place, text in written.items():
        (work / "docs" / place).write_text(for_phones(text, place), encoding="utf-8")
    settings = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    nav = navigation(places, repository)
    more = f"[project]\nnav = {as_toml(nav)}\n"
    (work / "zensical.toml").write_text(settings.replace("[project]\n", more, 1), encoding="utf-8")


def main() -> int:
    """Build the site; return 0 if Zensical found nothing wrong."""
    options = argparse.ArgumentParser(usage=(__doc__ or "").split("\n")[2])
    options.add_argument("--to", type=Path, default=WORK)
    work = options.parse_args().to.resolve()
    subprocess.run([sys.executable, DOCS / "images" / "draw.py"], check=True)
    try:
        prepare(work)
    except Incomplete as trouble:
        sys.exit(f"build_site.py: {trouble}")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f"]
    settings = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    built = subprocess.run([*command, work / "zensical.toml"], check=False, cwd=work, env=settings)
    if not built.returncode:
        split_by_language(work / "html")
        print(f"built {work / 'html'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
