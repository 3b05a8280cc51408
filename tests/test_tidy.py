"""Style as a test: the rules of this repository that no linter knows.

Each rule is a function from one file to its complaints, so that every rule can be shown a bad
example at the end of this file. ``python -m tests.test_tidy`` prints the longest of the package.
"""

import ast
import contextlib
import functools
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tokenize import COMMENT

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fencelock"

FILE_LINES_MAX = 600
REASON_LETTERS_MIN = 6
FUNCTION_LINES_MAX = 40  # code in the body; comments, blank lines and the docstring are free

BANNED_WORDS = frozenset({"util", "utils", "helper", "helpers", "manager", "managers"})

# Tests wait for a state by asking for it, never by sleeping long enough. Sleeping stands for work
# that takes time, or lets real time pass where that is the subject: file → why.
SLEEPS: dict[str, str] = {
    "tests/conformance/test_notified.py": "a holder that lets no other task run",
    "tests/faults/proxy.py": "the distance to a far server",
    "tests/faults/test_builds.py": "the work that is done under the lock",
    "tests/integrations/load/work.py": "the work that is done under the lock",
    "tests/test_tidy.py": "bad examples, never run",
}

# The rooms that import nothing of the world → but for this.
PURE = {
    "_core": frozenset(),
    "lease": frozenset({"time"}),  # expires_at() tells people the wall clock; no decision uses it
    "errors": frozenset(),
    "options": frozenset(),
}


# Wording at which a reader stumbles → what to write instead.
WORDING = {
    r"\btells?\s+whether\b": "'Return True if', or 'says whether'",
    r"\b(?:am|is|are|was|were|be|been|being)\s+told\b(?!\s+apart)": (
        "'is notified', 'is reported', 'finds out'"
    ),
    r"\bshall\b": "'must' or 'should'",
    # A question may begin with these words; a statement names the role.
    r"(?:^|[.:;!?]\s+|[-*|#>]\s+|\d\.\s+|[(*_])Who\b"
    r"(?![^.;:|]*\?)": "name the role: 'the client that …', 'the holder', 'no client'",
    r"\b(?:nobody|somebody|anybody|everybody|whoever)\b": "name the role, or 'no client'",
    r"\b(?:by|of|to|for|from|but)\s+who\b": "name the role: 'by the client that …'",
}
# A file with none of these words has none of that wording.
STUMBLES = re.compile(r"\b(tells?|told|shall|who|whoever|(no|some|any|every)body)\b", re.IGNORECASE)


# --- which files ----------------------------------------------------------------------------------


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Return the repository's files; without git (an unpacked sdist), all that are not hidden."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        names = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        listing = "\0".join(str(name) for name in names if is_ours(name))
    return tuple(path for name in listing.split("\0") if name and (path := ROOT / name).is_file())


def is_ours(name: Path) -> bool:
    return name.parts[0] == ".ci" or not any(
        part.startswith(".") or part in {"__pycache__", "build", "dist"} for part in name.parts
    )


def python_files(*folders: str) -> list[Path]:
    """Return Python files of these folders or names, those not yet committed included."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted({*found, *(ROOT / name for name in folders if name.endswith(".py"))})


def inside(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.lru_cache(maxsize=1)
def module(text: str) -> ast.Module:
    return ast.parse(text)


@functools.lru_cache(maxsize=1)
def nodes(text: str) -> list[ast.AST]:
    """Return a module and all its nodes, which the rules read one after the other."""
    return list(ast.walk(module(text)))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements right inside a node, and no expression: of those there are far more."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, part, ())


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in statements(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each
        yield from functions(each)


@functools.cache
def complaints() -> dict[object, list[str]]:
    """Return the complaints of each rule, gone through file by file."""
    rules: dict[Path, list] = {}
    for rule, paths in RULES.items():
        for path in paths:
            rules.setdefault(path, []).append(rule)
    found: dict[object, list[str]] = {rule: [] for rule in RULES}
    for path, its in rules.items():
        text = path.read_text()
        for rule in its:
            found[rule] += (f"{inside(path)}: {each}" for each in rule(path, text))
    return found


def hold(rule, paths) -> None:
    """Fail with every complaint that the rule has about these files."""
    fail([f"{inside(path)}: {text}" for path in paths for text in rule(path, path.read_text())])


def fail(found: list[str]) -> None:
    if found:
        pytest.fail("\n".join(found), pytrace=False)


SOURCE = python_files("src")
TESTS = python_files("tests")
PYTHON = python_files(
    *("src", "tests", "examples", "benchmarks", "verification", "docs", "tools"),
    *("dev.py", "hatch_build.py"),
)
MARKDOWN = [path for path in tracked() if path.suffix == ".md"]


# --- size -----------------------------------------------------------------------------------------


def long_file(_path: Path, text: str) -> Iterator[str]:
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines, at most {FILE_LINES_MAX}: it has more than one subject"


def long_functions(_path: Path, text: str) -> Iterator[str]:
    for name, line, length in function_lengths(text):
        if length > FUNCTION_LINES_MAX:
            yield f"{line}: {name} has {length} lines of code, at most {FUNCTION_LINES_MAX}"


def function_lengths(text: str) -> Iterator[tuple[str, int, int]]:
    lines = text.splitlines()
    for node in functions(module(text)):
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        first = body[0].lineno if body else node.end_lineno + 1
        yield node.name, node.lineno, sum(map(is_code, lines[first - 1 : node.end_lineno]))


def is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


# --- imports --------------------------------------------------------------------------------------


@functools.cache
def the_world() -> frozenset[str]:
    """Return the modules that the logic may not import: the list in pyproject.toml, as for ruff."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    return frozenset(lint["flake8-tidy-imports"]["banned-api"])


def wrong_imports(path: Path, text: str) -> Iterator[str]:
    room = room_of(path)
    banned = the_world() - PURE[room] if room in PURE else frozenset()
    for line, name in imports(path, text):
        if any(f"{name}.".startswith(f"{ban}.") for ban in banned):
            yield f"{line}: {room} may not import {name}"


def room_of(path: Path) -> str:
    """Return the first name under the package: a folder, or a module without its ending."""
    return path.relative_to(ROOT / "src" / PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield every import, wherever it stands, with its full name; relative ones are resolved."""
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(path, node)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def absolute(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    folders = path.relative_to(ROOT / "src").parts[:-1]
    above = folders[: len(folders) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


# --- words ----------------------------------------------------------------------------------------


def banned_words(path: Path, text: str) -> Iterator[str]:
    folder_and_file = path.relative_to(ROOT).with_suffix("").parts
    classes = re.findall(r"^ *class (\w+)", text, re.MULTILINE)
    for name in (*folder_and_file, *classes):
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
        for word in BANNED_WORDS.intersection(map(str.lower, words)):
            yield f"{name}: {word!r} says nothing about what it does"


def undocumented(path: Path, text: str) -> Iterator[str]:
    """Complain of a public name without docstring; in private modules methods are free."""
    private_module = any(re.match(r"_[^_]", part) for part in path.relative_to(ROOT).parts)
    tree = module(text)
    if ast.get_docstring(tree) is None:
        yield "1: the module has no docstring"
    for node in public(tree):
        if ast.get_docstring(node) is None:
            yield f"{node.lineno}: {node.name} has no docstring"
        if isinstance(node, ast.ClassDef) and not private_module:
            bare = (method for method in public(node) if ast.get_docstring(method) is None)
            yield from (f"{method.lineno}: {node.name}.{method.name}" for method in bare)


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(parent: ast.AST) -> Iterator[Definition]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Definition) and not node.name.startswith("_") and needs_words(node):
            yield node


def needs_words(node: Definition) -> bool:
    """Return True if it speaks for itself: not an overload, override or setter of another."""
    marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
    return not marks & {"overload", "override", "setter", "deleter"}


def unreasoned(_path: Path, text: str) -> Iterator[str]:
    """Complain of a silenced check without codes, or without a word that says why."""
    silences = re.compile(r"#\s*(noqa|type:\s*ignore|pragma: no cover)\b", re.IGNORECASE)
    form = r"#\s*(noqa|type:\s*ignore|pragma: no cover)(:\s*[\w, ]+?|\[[\w, -]+\])?(?=\s+[#(-]|$)"
    for line, comment in comments(text) if silences.search(text) else ():
        if silences.search(comment):
            match = re.search(form, comment, re.IGNORECASE)
            reason = comment[match.end() :] if match else ""
            if len(re.findall(r"[A-Za-z]", reason)) < REASON_LETTERS_MIN:
                yield f"{line}: {comment!r} gives no reason: # noqa: CODE  # why it is right here"


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments, line by line; what looks like one in a text of several lines, too."""
    for number, line in enumerate(text.splitlines(), 1):
        if "#" in line:
            with contextlib.suppress(tokenize.TokenError):
                tokens = tokenize.generate_tokens(iter([line.strip()]).__next__)
                yield from ((number, each.string) for each in tokens if each.type == COMMENT)


# --- wording --------------------------------------------------------------------------------------


def hard_wording(path: Path, text: str) -> Iterator[str]:
    """Complain of wording at which a native reader stumbles: in pages, docstrings and comments."""
    prose = PROSE[path.suffix](text) if STUMBLES.search(text) else ""
    for form, instead in WORDING.items():
        for match in re.finditer(form, prose, re.MULTILINE | (0 if "^" in form else re.IGNORECASE)):
            words = " ".join(match.group().split())
            line = prose.count("\n", 0, match.end()) + 1
            yield f"{line}: {words!r}; write {instead}"


def prose_of_page(text: str) -> str:
    """Return a page with spaces instead of its code."""
    code = r"^( *)(```+|~~~+).*?^\1\2|`[^`\n]*`"
    return re.sub(code, lambda found: blank(found.group()), text, flags=re.MULTILINE | re.DOTALL)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def prose_of_python(text: str) -> str:
    """Return the docstrings and comments of a module, each on its line."""
    lines = [""] * (text.count("\n") + 1)
    for line, comment in comments(text):
        lines[line - 1] = comment.lstrip("#: ")
    for node in nodes(text):
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node) is not None:
            words = node.body[0]
            source = text.splitlines()[words.lineno - 1 : words.end_lineno]
            for number, each in enumerate(source, words.lineno - 1):
                lines[number] = re.sub(r"``.*?``", "code", each.strip().strip('"'))
    return "\n".join(lines)


def prose_of_lua(text: str) -> str:
    """Return the comments of a script, each on its line."""
    return re.sub(r"^(.*?)(?:--+ ?(.*))?$", r"\2", text, flags=re.MULTILINE)


PROSE = {".md": prose_of_page, ".py": prose_of_python, ".lua": prose_of_lua}


# All pages, and the package.
WORDED = [*MARKDOWN, *SOURCE, *sorted((ROOT / "src").rglob("*.lua"))]


# --- tests ----------------------------------------------------------------------------------------


def sleeps(path: Path, text: str) -> Iterator[str]:
    """Complain of sleeping, in text as well: tests write programs and run them."""
    if inside(path) in SLEEPS:
        return
    form = r"\b(time|asyncio)\.sleep\((?!0\))|from (time|asyncio) import .*\bsleep\b"
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(form, line):
            yield f"{number}: sleeps; wait for the state itself, or give a reason in SLEEPS"


# --- the mutex ------------------------------------------------------------------------------------


def called_on_the_way_out(_path: Path, text: str) -> Iterator[str]:
    """Complain of a return from inside the mutex that makes a call; mutex.py says why."""
    for node in nodes(text):
        if isinstance(node, ast.With) and any(map(is_mutex, node.items)):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and calls(each):
                    yield f"{each.lineno}: calls as it returns from inside the mutex"


def is_mutex(item: ast.withitem) -> bool:
    return re.search(r"\bmutex(\(\))?$|\._lock$", ast.unparse(item.context_expr)) is not None


def calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(node))


# --- errors ---------------------------------------------------------------------------------------


def raised_and_kept(_path: Path, text: str) -> Iterator[str]:
    """Complain of raising what a variable still has afterwards.

    The error has this frame, by its traceback, and the frame the error: a circle, which holds all
    that the frames below have, such as the caller's handle, until Python's collector runs.
    """
    yield from _raised_and_kept(module(text), frozenset())


def _raised_and_kept(node: ast.AST, let_go: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.ExceptHandler) and node.name:
        let_go |= {node.name}  # Python deletes it by itself
    if isinstance(node, ast.Try):
        ends = [each for each in node.finalbody if isinstance(each, ast.Delete)]
        let_go |= {ast.unparse(name) for each in ends for name in each.targets}
    if isinstance(node, ast.Raise) and (name := _kept_in(node.exc)) and name not in let_go:
        yield f"{node.lineno}: raises what {name} keeps; try: raise …, finally: del {name}"
    for child in statements(node):
        yield from _raised_and_kept(child, let_go)


def _kept_in(raised: ast.expr | None) -> str | None:
    """Return the variable that has what is raised; None for a call, and for a class."""
    if isinstance(raised, ast.BoolOp):
        raised = raised.values[0]
    if re.match(r"(\w+\.)*_?[A-Z]", ast.unparse(raised)) if raised else True:
        return None
    while isinstance(raised, ast.Attribute | ast.Subscript):
        raised = raised.value
    return raised.id if isinstance(raised, ast.Name) else None


# --- places ---------------------------------------------------------------------------------------


def machine_paths(_path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in re.finditer(r"(?<![\w.~*/-])/(root|work|(home|Users)/\w+)(?![\w-])", line):
            yield f"{number}: {match.group()} exists on one machine only"


def dead_links(path: Path, text: str) -> Iterator[str]:
    """Complain of a Markdown link to a file, or to a heading, that is not there."""
    for target in links(text):
        name, _, heading = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        if not place.exists():
            yield f"link to {target}: no such file"
        elif heading and place.suffix == ".md":
            page = place.read_text() if name else text
            if heading not in headings(page):
                yield f"link to {target}: no such heading"


def links(text: str) -> Iterator[str]:
    prose = re.sub(r"`[^`\n]*`", "", without_code(text))
    found = re.findall(r"\]\(<?([^)\s>]+)|^\[[^\]]+\]:\s+<?([^\s>]+)", prose, re.MULTILINE)
    for inline, reference in found:
        target = inline or reference
        if not re.match(r"[a-z]+:", target):
            yield target


def headings(text: str) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings, and those that it sets itself."""
    titles = re.findall(r"^#+ +(.+?)\s*#*$", without_code(text), re.MULTILINE)
    anchors: dict[str, int] = {}
    for title in titles:
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        anchors[anchor] = anchors.get(anchor, -1) + 1
    return set(re.findall(r'<a id="([^"]+)"></a>', without_code(text))) | {
        f"{name}-{n}" if n else name for name, count in anchors.items() for n in range(count + 1)
    }


def without_code(text: str) -> str:
    return re.sub(r"^( *)(```+|~~~+).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL)


def not_two_commands(_path: Path, text: str) -> Iterator[str]:
    """Complain unless the first code block of the README is two commands, each on a line."""
    block = re.search(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if block is None:
        yield "has no code block to start with"
        return
    lines = block.group(1).splitlines()
    if len(lines) != 2 or not all(map(is_code, lines)):
        yield f"the first code block has {len(lines)} lines; two commands lead to a running demo"
    if any(re.search(r"&&|\|\||;|\\$", line) for line in lines):
        yield "the first code block joins commands; one command a line"


# --- the checks -----------------------------------------------------------------------------------

RULES = {
    long_file: SOURCE,
    long_functions: PYTHON,
    wrong_imports: [path for path in SOURCE if path.is_relative_to(ROOT / "src" / PACKAGE)],
    banned_words: PYTHON,
    undocumented: SOURCE,
    unreasoned: PYTHON,
    sleeps: TESTS,
    called_on_the_way_out: SOURCE,
    raised_and_kept: SOURCE,
    dead_links: MARKDOWN,
    hard_wording: WORDED,
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_files_keep_the_rule(rule):
    fail(complaints()[rule])


def test_no_file_knows_the_machine_it_was_written_on():
    hold(machine_paths, filter(is_text, tracked()))


def is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:1024]


def test_the_readme_starts_with_two_commands():
    readme = ROOT / "README.md"
    if readme.read_text().count("\n") <= 1:
        pytest.skip("the README is not written yet")
    hold(not_two_commands, [readme])


def test_every_allowed_sleep_has_a_file_and_a_reason():
    allowed = {name: why for name, why in SLEEPS.items() if (ROOT / name).is_file() and why}
    assert allowed == SLEEPS


# --- every rule against what it is there for ------------------------------------------------------

CORE = "src/fencelock/_core/lock/acquire.py"
LEASE = "src/fencelock/lease.py"
TEST = "tests/pure/test_x.py"
BODY = "    x = 1\n"

BAD = [
    (long_file, CORE, "x = 1\n" * (FILE_LINES_MAX + 1)),
    (long_functions, CORE, "def f():\n" + BODY * (FUNCTION_LINES_MAX + 1)),
    (long_functions, CORE, "class A:\n async def f():\n" + BODY * (FUNCTION_LINES_MAX + 1)),
    (wrong_imports, CORE, "import time"),
    (wrong_imports, CORE, "def f():\n    from os.path import join"),
    (wrong_imports, CORE, "from logging import handlers"),
    (wrong_imports, CORE, "import redis.asyncio as r"),
    (wrong_imports, LEASE, "import threading"),
    (banned_words, "src/fencelock/utils.py", ""),
    (banned_words, "src/fencelock/_helpers/x.py", ""),
    (banned_words, CORE, "class LockManager: pass"),
    (banned_words, CORE, "class HTTPUtil: pass"),
    (undocumented, CORE, ""),
    (undocumented, CORE, '"""M."""\ndef f(): pass'),
    (undocumented, LEASE, '"""M."""\nclass A:\n    "A."\n    async def f(self): pass'),
    (unreasoned, CORE, "import x  # noqa"),
    (unreasoned, CORE, "import x  # noqa: F401"),
    (unreasoned, CORE, "import x  # noqa: F401, E501  # ok"),
    (unreasoned, CORE, "x = y  # type: ignore[attr-defined]"),
    (unreasoned, CORE, "x = y  # type: ignore"),
    (sleeps, TEST, "time.sleep(1)"),
    (sleeps, TEST, "await asyncio.sleep(0.1)"),
    (sleeps, TEST, "PROGRAM = 'import time; time.sleep(9)'"),
    (sleeps, TEST, "from time import monotonic, sleep"),
    (called_on_the_way_out, CORE, "def f(port):\n with port.mutex:\n  return g()"),
    (called_on_the_way_out, CORE, "def f(s):\n with s._lock:\n  return s.a and len(s.b)"),
    (raised_and_kept, CORE, "raise error"),
    (raised_and_kept, CORE, "raise errors[0] or closed()"),
    (raised_and_kept, CORE, "try:\n raise self._error from None\nfinally:\n close()"),
    (raised_and_kept, CORE, "try: f()\nexcept A as error: pass\nraise error"),
    (machine_paths, "README.md", "see /" + "root/x"),
    (machine_paths, "README.md", "cd /" + "work"),
    (machine_paths, "README.md", '"/' + 'home/ann/x"'),
    (dead_links, "README.md", "[x](docs/nowhere.md)"),
    (dead_links, "README.md", "[x](#nowhere)\n# Here"),
    (dead_links, "README.md", "[x]: nowhere.md"),
    (hard_wording, "docs/x.md", "The holder is\ntold that it is lost."),
    (hard_wording, "docs/x.md", "One server.\nWho comes later waits."),
    (hard_wording, "docs/x.md", "- **Nobody waits.**"),
    (hard_wording, "docs/x.md", "It ends; whoever. Whoever asks waits. Is it so?"),
    (hard_wording, "docs/x.md", "| Who dies | is skipped |"),
    (hard_wording, "docs/x.md", "The lock is held by nobody."),
    (hard_wording, "docs/x.md", "One of them shall lead."),
    (hard_wording, CORE, 'def f():\n    """Tell whether it is held."""'),
    (hard_wording, CORE, "x = 1  # Nobody hears it"),
    (hard_wording, CORE, "x = 1  # a lock that nobody holds"),
    (hard_wording, CORE, 'def f():\n    """Return the lease of whoever asks."""'),
    (hard_wording, CORE, "# released by who does not hold it\n"),
    (hard_wording, CORE, "# the waiter is\n# told\n"),
    (hard_wording, "src/fencelock/scripts/x.lua", "-- Who waits is granted.\nlocal x = 1\n"),
    (not_two_commands, "README.md", "# no block"),
    (not_two_commands, "README.md", "```\na\nb\nc\n```"),
    (not_two_commands, "README.md", "```sh\na\n# b\n```"),
    (not_two_commands, "README.md", "```sh\na && b\nc\n```"),
]

GOOD = [
    (long_functions, CORE, "def f():\n" + '    """D."""\n' + "    # why\n\n" * 50 + BODY),
    (
        wrong_imports,
        CORE,
        "from ...lease import Lease\nfrom . import backoff, timing\nimport logging",
    ),
    (wrong_imports, LEASE, "from .errors import LeaseLost"),
    (
        wrong_imports,
        "src/fencelock/_io/port_asyncio.py",
        "import asyncio\nfrom .._core import acquire",
    ),
    (banned_words, CORE, "class Managed: pass"),
    (undocumented, CORE, '"""M."""\ndef _f(): pass\nclass _A: pass'),
    (undocumented, LEASE, '"""M."""\nclass A:\n    "A."\n    @override\n    def f(self): pass'),
    (unreasoned, CORE, "x = y  # type: ignore[arg-type]  # the stubs lack this overload"),
    (unreasoned, CORE, "import x  # noqa: F401, E501  # kept for users of 0.1"),
    (unreasoned, CORE, "import x  # noqa: F401 - kept for users of 0.1"),
    (unreasoned, CORE, "x = '# noqa'"),
    (sleeps, TEST, "await asyncio.sleep(0)\nlease.asleep(3)"),
    (called_on_the_way_out, CORE, "def f(port):\n with port.mutex:\n  x = g()\n return h(x)"),
    (raised_and_kept, CORE, "raise NotHeld\nraise asyncio.CancelledError\nraise f(x)\nraise"),
    (raised_and_kept, CORE, "try: f()\nexcept A as error: raise error"),
    (raised_and_kept, CORE, "try:\n raise self._error\nfinally:\n del self"),
    (machine_paths, "README.md", "https://x.org/work/x.html, ~/work, roots/root, /workers"),
    (dead_links, "README.md", "[x](#here-and-there)\n# Here, and there\n[y](https://nowhere/)"),
    (dead_links, "README.md", '[x](#lock.acquire)\n<a id="lock.acquire"></a>`acquire`'),
    (dead_links, "README.md", "`[x](no.md)`\n```\n[x](no.md)\n```\n[l](LICENSE)"),
    (hard_wording, "docs/x.md", "Who holds it? The client that acquired it. `Nobody`, is\n`told`."),
    (hard_wording, "docs/x.md", "```text\nNobody shall be told\n```\n"),
    (hard_wording, CORE, 'x = "Who is told"  # it is notified; errors are told apart'),
    (hard_wording, "src/fencelock/scripts/x.lua", "local told = 'Nobody is told'\n"),
    (not_two_commands, "README.md", "# Name\n```sh\na\nb\n```\n```\nc\n```"),
]


@pytest.mark.parametrize(("rule", "name", "text"), BAD)
def test_the_rule_sees_what_is_wrong(rule, name, text):
    assert list(rule(ROOT / name, text))


@pytest.mark.parametrize(("rule", "name", "text"), GOOD)
def test_the_rule_lets_pass_what_is_right(rule, name, text):
    assert list(rule(ROOT / name, text)) == []


def test_every_rule_has_a_bad_and_a_good_example():
    rules = {*RULES, machine_paths, not_two_commands}
    assert rules == {rule for rule, *_ in BAD}
    assert rules - {long_file} == {rule for rule, *_ in GOOD}


def test_the_tests_that_want_a_calm_machine_are_few_and_say_what_they_promise():
    lines = (ROOT / "tests" / "calm.txt").read_text().splitlines()
    named = [line.partition("  ") for line in lines if not line.startswith("#")]
    assert len(named) <= 30
    for test, _, promise in named:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test
        assert promise


def main() -> None:
    """Print the longest files and functions of the package."""
    files = sorted(((path.read_text().count("\n"), inside(path)) for path in SOURCE), reverse=True)
    functions = sorted(
        (
            (length, f"{inside(path)}:{line} {name}")
            for path in SOURCE
            for name, line, length in function_lengths(path.read_text())
        ),
        reverse=True,
    )
    for length, name in (*files[:10], *functions[:10]):
        print(f"{length:4} {name}")  # noqa: T201  # run by hand, to be read


if __name__ == "__main__":
    main()
