"""Write the face for threads, src/fencelock/blocking, from the one for asyncio.

python -m tools.generate_blocking          write the files that differ
python -m tools.generate_blocking --check  only name them, and fail if there are any

An await of a method of the face becomes a call of it, and one of a flow ``run_blocking(flow)``.
The syntax tree says where they are; the text between stays, with its comments and layout, but for
words: ``WORDS`` in the code, ``PROSE`` in docstrings. Each face has its own files ``BY_HAND``. A
docstring whose lines are too long for threads is wrapped earlier in ``aio/``.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FACES = ROOT / "src" / "fencelock"
BY_HAND = {
    "caller.py",  # what truly differs: who calls, what can be cancelled, how a port is opened
}
HEAD = "# Generated from aio/{} by generate_blocking.py: change that, and run the script.\n"
# Used by most files; of those that do not use one, the import is taken out.
IMPORTS = """\
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
"""
NAMES = (
    (r"\bAsyncHold\b", "BlockingHold"),
    (r"\bStopAsync(?=Iteration)", "Stop"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(?=(enter|exit|iter|next)__)", "__"),
    (r"\baclose\b", "close"),
    (r"\btask(?=s?\b)", "thread"),
)
WORDS = (
    (r"Callable\[\[\], AioPort\]", "BlockingPort"),
    (r"\bport_asyncio import AioPort\b.*", "port_blocking import BlockingPort"),
    # A thread cannot be cancelled, and what a coroutine function returns is of no use to it.
    (r"(Callable\[\[\w+\]), Any\] \| Literal\[\"cancel\"\]", r"\1, object]"),
    (r"\bfencelock\.aio\b", "fencelock.blocking"),
    (r"\basyncio\b", "threading"),
    *NAMES,
)
# Sentences that docstrings have for asyncio alone begin so.
OF_ASYNCIO = re.compile(
    r"\s+(Cancelled|It may be used in several|Other loops|They are not awaited)\b[^.]*\."
)
PROSE = (
    (OF_ASYNCIO.pattern, ""),
    (r"; to be awaited|\s+in this loop(?=\s+afterwards)", ""),
    (r"\bthis loop's connection\b", "idle connections"),
    (r"\b([Aa] )?cancellation\b", "Ctrl-C"),
    (r"\bcoroutine (?=function)", ""),
    (r"\ban (?=``async)", "a "),
    (r"``async (?=with|for)", "``"),
    (r"\ban asyncio client\b", "a blocking client"),
    (r"\b(for|in) asyncio\b", r"\1 threads"),
    (r"\basyncio\b", "threading"),
    *NAMES,
)
# A paragraph about both faces is the same in both.
ABOUT_BOTH = re.compile(r"``Client``|\bthread\s+or\s+task\b")
# What is awaited of these is a flow.
WITH_FLOWS = ("fencelock._core", "fencelock._handles")
# Methods of a port that a face awaits: those of threads return when they have ended.
OF_PORTS = {"shut"}

Edit = tuple[int, int, str]


def sources() -> list[Path]:
    """Return the files that are written once."""
    return [path for path in sorted((FACES / "aio").glob("*.py")) if path.name not in BY_HAND]


def face_methods() -> set[str]:
    """Return the names of all that the face for asyncio defines to be awaited."""
    trees = [ast.parse(path.read_text()) for path in (FACES / "aio").glob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree))
    return OF_PORTS | {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}


def blocking(name: str, source: str, methods: set[str]) -> str:
    """Return the source for threads of a file of the face for asyncio."""
    edits = sorted(Edits(source, methods).all())
    raw, parts, at = source.encode(), [HEAD.format(name)], 0
    for begin, end, text in [*edits, (len(raw), len(raw), "")]:
        parts += [replaced(raw[at:begin].decode(), WORDS), text]
        at = end
    made = "".join(parts).replace("import annotations\n", f"import annotations\n\n{IMPORTS}", 1)
    return tidied(made)


class Edits:
    """The changes to one file, by their positions."""

    def __init__(self, source: str, methods: set[str]) -> None:
        self._raw = source.encode()
        self._lines = [0]
        for line in self._raw.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._tree = ast.parse(source)
        self._methods = methods
        self._flows = {
            alias.asname or alias.name
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(WITH_FLOWS)
            for alias in node.names
        }

    def all(self) -> Iterator[Edit]:
        """Yield all changes but those of words in the code."""
        for node in ast.walk(self._tree):
            yield from self._of(node)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._docstring(node)

    def _of(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.AsyncFunctionDef() | ast.AsyncWith() | ast.AsyncFor():
                yield self._cut(node, "async ")
                for mark in getattr(node, "decorator_list", []):
                    if ast.unparse(mark) == "by_caller":  # it is for tasks
                        yield self._lines[mark.lineno - 1], self._lines[mark.lineno], ""
            case ast.Await():
                yield self._cut(node, "await ")
                if self._is_flow(node.value):
                    begin, end = self._span(node.value)
                    yield begin, begin, "run_blocking("
                    yield end, end, ")"
            case ast.Call(ast.Name("caller" | "task_now"), []):
                yield *self._span(node), "process.here.unit"
            case ast.Call(ast.Attribute(attr="_port") | ast.Name("port"), []):
                yield self._span(node.func)[1], self._span(node)[1], ""  # a client has only one
            case ast.Subscript(ast.Name("Coroutine"), ast.Tuple([*_, result])):
                yield from self._unwrap(node, result)
            case ast.Subscript(ast.Name("Awaitable"), result):
                yield from self._unwrap(node, result)

    def _is_flow(self, awaited: ast.expr) -> bool:
        """Return False for a call of the face's own: it is one of ``aio``, or its name is."""
        match awaited:
            case ast.Call(ast.Name(name)):
                return name in self._flows
            case ast.Call(ast.Attribute(ast.Name(owner) | ast.Call(ast.Name(owner)), _)) if (
                owner in self._flows
            ):
                return True
            case ast.Call(ast.Attribute(_, name)):
                return name not in self._methods
        return True

    def _docstring(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.AST(body=[ast.Expr(ast.Constant(str()) as text), *_]):
                begin, end = self._span(text)
                yield begin, end, docstring(self._raw[begin:end].decode())

    def _unwrap(self, node: ast.expr, inner: ast.expr) -> Iterator[Edit]:
        begin, end = self._span(node)
        yield begin, self._span(inner)[0], ""
        yield self._span(inner)[1], end, ""

    def _cut(self, node: ast.AST, word: str) -> Edit:
        begin, _ = self._span(node)
        return begin, begin + len(word), ""

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )


def replaced(text: str, words: tuple[tuple[str, str], ...]) -> str:
    """Return a text with other words."""
    for pattern, other in words:
        text = re.sub(pattern, other, text)
    return text


def docstring(text: str) -> str:
    """Return a docstring as the face for threads has it; its lines stay where they are."""
    text, end = re.fullmatch(r'(.*?)(\s*""")', text, re.DOTALL).groups()
    paragraphs = [
        each if ABOUT_BOTH.search(each) else replaced(each, PROSE) for each in text.split("\n\n")
    ]
    return "\n\n".join(each for each in paragraphs if each.strip()) + end


def tidied(source: str) -> str:
    """Return it formatted, with sorted imports and without those that are not used."""
    place = "--stdin-filename=src/fencelock/blocking/x.py"
    fix = ("check", "--fix", "--quiet", "--exit-zero", "--select=I,F401")
    for command in (fix, ("format", "--quiet")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, place, "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        source = done.stdout
    return source


def main(*, check: bool) -> int:
    """Write the files, or with ``check`` say which differ."""
    methods = face_methods()
    made = {path.name: blocking(path.name, path.read_text(), methods) for path in sources()}
    there = {path.name: path for path in (FACES / "blocking").glob("*.py")}
    differ = [name for name in made if name not in there or there[name].read_text() != made[name]]
    extra = sorted(there.keys() - made.keys() - BY_HAND)
    if check:
        for name in [*differ, *extra]:
            print(f"src/fencelock/blocking/{name} is not what generate_blocking.py writes")
        return bool(differ or extra)
    for name in differ:
        (FACES / "blocking" / name).write_text(made[name])
    for name in extra:
        there[name].unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
