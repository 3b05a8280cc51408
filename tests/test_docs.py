"""The documentation against the code: names, links, errors, keys, and every Python block.

A fenced block says by its info string what it is: ``python`` compiles, ``python run`` also runs
(all of a page in one process, from top to bottom, on a server of its own), ``python stub`` is a
signature.
"""

import asyncio
import functools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import fencelock
from fencelock import errors, options
from fencelock._core.deadlines import (
    DRIFT_RATE,
    HANDOFF_TTL_SECONDS,
    HEARTBEAT_SECONDS,
    LIVENESS_TIMEOUT_SECONDS,
)
from fencelock._core.keys import LockKeys
from fencelock._io.wire import ReplyError, server_error
from fencelock.cli.doctor.acl import MORE, acl_rule
from fencelock.scripts.layout import LAYOUT
from tests.replication import replicated
from tests.servers import Server
from tools import generate_reference

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
LINKED = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
RUN_SECONDS = 60


class Block(NamedTuple):
    """One fenced block: its info string, its text and the line on which the text begins."""

    info: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(one[1].strip(), one[2], text.count("\n", 0, one.start(2)) + 1) for one in found]


def python_blocks(page: Path, kind: str = "") -> list[Block]:
    wanted = f"python {kind}".strip()
    return [one for one in blocks(page) if f"{one.info} ".startswith(f"{wanted} ")]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# --- every block ----------------------------------------------------------------------------------


def test_every_python_block_compiles():
    for page in PAGES:
        for block in python_blocks(page):
            compile("\n" * (block.line - 1) + block.text, str(page), "exec")


def test_no_line_of_code_is_wider_than_a_page_of_the_site():
    """A window of 1280 px shows a hundred characters beside both columns of links."""
    lines = [(name_of(page), line) for page in LINKED for line in code_lines(page)]

    assert [each for each in lines if len(each[1]) > 100] == []


def code_lines(page: Path) -> list[str]:
    return [line for block in blocks(page) for line in block.text.splitlines()]


@pytest.fixture(scope="module")
def server():
    with Server() as one:
        yield one


# A translation has the blocks of its original: tests/test_front_page.py.
ORIGINALS = [page for page in PAGES if not page.stem.endswith(".zh-CN")]
RUNNABLE = [page for page in ORIGINALS if python_blocks(page, "run")]


def program(page: Path) -> str:
    """Return the runnable blocks of a page; each stays on its line, for tracebacks."""
    text = ""
    for block in python_blocks(page, "run"):
        text += "\n" * (block.line - 1 - text.count("\n")) + block.text
    return text


@pytest.mark.slow
def test_type_checkers_accept_the_runnable_blocks(tmp_path):
    """As an editor checks them: tests/typing has what must be right in every detail."""
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "basic"}')
    for page in RUNNABLE:
        (tmp_path / f"{page.stem.replace('-', '_')}.py").write_text(program(page))
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    checked = subprocess.run(
        [sys.executable, "-m", "basedpyright"],
        env=os.environ | {"PATH": found},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_runnable_blocks_of_a_page_run(page, server, tmp_path):
    server.flushall()
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program(page))

    ran = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"FENCELOCK_URL": server.url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_page_has_readers_install_what_is_not_published():
    """As long as it is not on PyPI: later this test goes, and README and tutorial say so."""
    sources = [*PAGES, *(ROOT / "src").rglob("*.py")]
    wanted = re.compile(r"pip install [^\n`]*\bfencelock\b")

    assert [name_of(file) for file in sources if wanted.search(file.read_text())] == []


# --- the index ------------------------------------------------------------------------------------

PROOF = {"capacity", "failovers", "ladder", "peers-under-faults"}
PROOF |= {"performance", "simulator"}


def test_the_index_has_every_page_once_and_the_proofs_apart():
    docs = ROOT / "docs"
    for_users, heading, evidence = (docs / "README.md").read_text().partition("\n## Evidence")
    below = [page.relative_to(docs) for page in ORIGINALS if docs in page.parent.parents]
    linked = {part: re.findall(r"\]\((\w[\w./-]*\.md)\)", part) for part in (for_users, evidence)}

    assert heading
    assert sorted(linked[evidence]) == sorted(str(page) for page in below if page.stem in PROOF)
    assert sorted(linked[for_users]) == sorted(
        [
            *(str(page) for page in below if page.stem not in PROOF),
            "glossary.md",
            "questions.md",
            "zh-CN.md",
        ]
    )


def test_every_page_answers_a_question():
    """So a page that is joined to another, or a section that goes, takes no answer with it.

    Each answer leads to a page, or to a section of one: the test of links looks at that.
    """
    docs = ROOT / "docs"
    answers = set(re.findall(r"\]\(([\w./-]+)[#)]", (docs / "questions.md").read_text()))
    pages = {page.relative_to(docs).as_posix() for page in ORIGINALS if docs in page.parents}
    pages -= {page for page in pages if page.startswith("reference/python/")}

    assert pages - answers == {"README.md", "questions.md"}


# --- the reference of Python ----------------------------------------------------------------------

NAMED = [getattr(fencelock, name) for name in fencelock.__all__]
EXPORTS = [one for one in NAMED if isinstance(one, type)]
ERRORS = [one for one in EXPORTS if issubclass(one, BaseException)]
THREADS = [one for one in EXPORTS if one not in ERRORS and not one.__name__.startswith("Async")]


def test_a_class_that_no_page_of_the_reference_has_is_named(monkeypatch, capsys):
    others = {page: of for page, of in generate_reference.CONTENTS.items() if page != "once"}
    monkeypatch.setattr(generate_reference, "CONTENTS", others)

    assert generate_reference.main(check=True) == 1
    assert "has no Once, Outcome: " in capsys.readouterr().out


def test_a_page_of_the_reference_that_was_changed_by_hand_is_named(monkeypatch, capsys, tmp_path):
    shutil.copytree(generate_reference.PAGES, tmp_path / "docs")
    (tmp_path / "docs" / "lease.md").write_text("by hand")
    monkeypatch.setattr(generate_reference, "ROOT", tmp_path)
    monkeypatch.setattr(generate_reference, "PAGES", tmp_path / "docs")

    assert generate_reference.main(check=True) == 1
    assert capsys.readouterr().out.startswith("docs/lease.md is not what ")
    assert generate_reference.main(check=False) == 0
    assert generate_reference.main(check=True) == 0


# --- links ----------------------------------------------------------------------------------------


@functools.cache
def places(page: Path) -> set[str]:
    """Return what a link may name on a page: its anchors, and its headings, as GitHub has them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found, seen = set(re.findall(r'<a id="([^"]+)"></a>', text)), Counter[str]()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().replace(" ", "-")
        name = re.sub(r"[^\w-]", "", words)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def test_every_link_leads_somewhere():
    assert [(name_of(page), link) for page in LINKED for link in lost_links(page)] == []


def lost_links(page: Path) -> Iterator[str]:
    code = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", code.sub("", page.read_text())):
        file, _, place = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        named = place and target.suffix == ".md"
        if not target.exists() or (named and place not in places(target)):
            yield link


# --- numbers --------------------------------------------------------------------------------------

# What pages and pictures say of a number of the code, and what it is there.
PICTURES = [one for one in (ROOT / "docs/images").glob("*.toml") if ".zh-CN" not in one.name]
SAID = {
    r"heartbeats?[^.|]{,60}every (two|[\d.]+) s": HEARTBEAT_SECONDS,
    r"proof of life[^|]+\|[^|]+: every ([\d.]+) s": HEARTBEAT_SECONDS,
    r"silent for ([\d.]+) s": LIVENESS_TIMEOUT_SECONDS,
    r"granted for ([\d.]+) s, in the same step": HANDOFF_TTL_SECONDS,
    r"([\d.]+) %(?: of a lease| of the ttl)? and 2 ms": DRIFT_RATE * 100,
    r"`deadlock_after`, ([\d.]+) s": options.DEADLOCK_AFTER,
    r"`node_timeout`, ([\d.]+) ms": options.NODE_TIMEOUT * 1000,
    r"\*ttl\* is ([\d.]+) s by default": options.TTL,
    r"`server_timeout`, ([\d.]+) s": options.SERVER_TIMEOUT,
    r"at most (\d+) turns and [\d.]+ ms": options.Cohort().turns,
    r"at most \d+ turns and ([\d.]+) ms": options.Cohort().seconds * 1000,
}


@pytest.mark.parametrize("form", SAID)
def test_the_pages_say_the_numbers_of_the_code(form):
    said = {page: re.findall(form, page.read_text()) for page in [*ORIGINALS, *PICTURES]}
    wrong = {
        name_of(page): number
        for page, numbers in said.items()
        for number in numbers
        if float(number.replace("two", "2")) != SAID[form]
    }

    assert any(said.values())
    assert wrong == {}


# --- the glossary ---------------------------------------------------------------------------------

GLOSSARY = ROOT / "docs" / "glossary.md"


def test_the_glossary_has_every_class():
    page = GLOSSARY.read_text()

    assert [one.__name__ for one in THREADS if f"`{one.__name__}`" not in page] == []


def test_the_glossary_has_each_word_once_and_in_order():
    parts = GLOSSARY.read_text().split("\n## ")[1:]
    words = [re.findall(r"^\| ([^|]+) \| [^-]", part, re.MULTILINE)[1:] for part in parts]

    assert all(part == sorted(part, key=str.lower) for part in words)
    each = [word for part in words for one in part for word in one.split(", ")]
    assert sorted(each) == sorted(set(each))


# --- errors ---------------------------------------------------------------------------------------


def test_the_page_of_errors_has_every_error_and_its_bases():
    page = (REFERENCE / "errors.md").read_text()
    missing = [one.__name__ for one in ERRORS if f"## {one.__name__}\n" not in page]

    assert missing == []


def test_the_tree_of_errors_is_the_code_s():
    tree = errors.__doc__.partition("\n\n")[2].rpartition("\n\n")[0]
    shown = [block.text for block in blocks(REFERENCE / "errors.md") if block.info == "text"]

    assert f"{tree}\n" in shown


def codes() -> list[str]:
    from fencelock._io import wire  # noqa: PLC0415  # its tables are private

    return sorted(code for table, _ in wire._KINDS for code in table)


def test_the_page_of_errors_tells_every_reason_of_a_loss():
    told = errors.LeaseLost.__doc__.partition(";")[0]
    reasons = [one for one in re.findall(r"``(\w+)``", told) if one != "reason"]
    page = (REFERENCE / "errors.md").read_text()

    assert reasons
    assert [one for one in reasons if f"\n| `{one}` | " not in page] == []


@pytest.mark.parametrize("code", codes())
def test_the_page_of_errors_tells_what_a_code_becomes(code):
    kind = type(server_error(ReplyError(f"{code} told"))).__name__
    page = (REFERENCE / "errors.md").read_text()

    assert re.search(rf"^\| `{code}` \| `{kind}` \| \S", page, re.MULTILINE)


def test_the_page_of_errors_has_no_code_that_the_library_does_not_know():
    page = (REFERENCE / "errors.md").read_text()
    shown = re.findall(r"^\| `([A-Z]+)` \| `\w+` \|", page, re.MULTILINE)

    assert sorted(set(shown) - {"REFUSED"}) == codes()


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders:42", "{user:7}:cart"])
def test_the_page_of_keys_shows_the_keys_that_the_library_uses(name):
    page = keys_page()
    missing = [
        key.decode()
        for key in LockKeys(options.KEY_PREFIX, name).all
        if f"`{key.decode()}`" not in page
    ]

    assert missing == []


def keys_page() -> str:
    return (REFERENCE / "keys.md").read_text()


def test_the_page_of_keys_has_the_words_of_a_record_and_of_a_waiter():
    rows = re.findall(r"^\| (record|waiter|options) \| `([\w ]+)`", keys_page(), re.MULTILINE)
    told = [form.replace("options", dict(rows)["options"]) for _, form in rows]

    forms = [LAYOUT[kind] for kind in ("record", "entry", "options")]
    assert told == [re.sub(r":\S+", "", form) for form in forms]


def acl_rules() -> dict[str, list[str]]:
    """Return the rules that the page gives, by user."""
    told = [one.text.split() for one in blocks(REFERENCE / "keys.md")]
    return {words[2]: words for words in told if words[:2] == ["ACL", "SETUSER"]}


def as_user(server: Server, user: str, **more: object) -> fencelock.Client:
    server.command(*acl_rules()[user])
    server.command("ACL", "LOG", "RESET")
    server.command("SCRIPT", "FLUSH")
    return fencelock.Client(f"redis://{user}:secret@127.0.0.1:{server.port}/0", **more)


def test_the_permissions_for_the_plain_form_are_enough(server):
    with as_user(server, "plain") as client:
        plain = client.lock("plain", wait=fencelock.Poll())
        with plain as lease:
            assert plain.locked()
            assert plain.owned()
            lease.renew()

    assert server.command("ACL", "LOG") == []


@pytest.mark.parametrize("user", ["locks", "plain"])
def test_the_permissions_for_replicas_are_enough(user):
    page = (REFERENCE / "keys.md").read_text()
    row = re.search(r"^\| clients with `replicas` \| (.*) \|$", page, re.MULTILINE)
    threads, tasks = re.findall(r"`(\+\w+)`", row[1])
    wait = fencelock.Poll() if user == "plain" else fencelock.Queue()
    with replicated() as (master, _), as_user(master, user, replicas=1) as client:
        master.command("ACL", "SETUSER", user, threads)
        with client.lock("counted", wait=wait) as lease:
            lease.renew()
        master.command("ACL", "SETUSER", user, tasks)
        asyncio.run(counted(master, user, wait))

        assert master.command("ACL", "LOG") == []


async def counted(server: Server, user: str, wait: options.Wait) -> None:
    url = f"redis://{user}:secret@127.0.0.1:{server.port}/0"
    async with (
        fencelock.AsyncClient(url, replicas=1) as client,
        client.lock("counted", wait=wait) as lease,
    ):
        await lease.renew()


def test_the_page_of_keys_and_the_doctor_give_the_same_rule():
    told = " ".join(acl_rules()["locks"])

    assert told == acl_rule("fencelock:").replace("locker", "locks").replace("PASSWORD", "secret")
    page = keys_page().replace("\\|", "|")
    rights = {right for more in MORE.values() for right in more.split()}
    assert {
        right for right in rights if not re.search(rf"[` ]{re.escape(right)}[` ]", page)
    } == set()
