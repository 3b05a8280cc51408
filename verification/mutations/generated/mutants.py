"""Every mutant of one file: a single small change of its text.

Python is changed by the operators of cosmic-ray, and by two of ours: a statement that is left out,
and a time that is off by a factor of a thousand. Lua is changed by simple operators on its text.

A change that cannot alter behaviour is not made: in annotations, ``TYPE_CHECKING`` blocks,
``__slots__``, docstrings, comments, and the text of errors. In Lua all strings are spared.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Variants of one operator at one place are drawn as one: ``<`` has seven, ``True`` has one.
PYTHON_OPERATORS = (
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)
PYTHON_FAMILIES = ("ReplaceComparisonOperator", "ReplaceBinaryOperator", "ReplaceUnaryOperator")
# Replacing ``+`` by these is a TypeError for most values: too easy to find.
EASY = ("_RShift", "_LShift", "_BitAnd", "_BitOr", "_BitXor", "_Pow")

Place = tuple[int, int]  # line, from 1, and column, from 0
Maker = Callable[[], str | None]  # makes the text of a mutant
Change = tuple[str, int, Maker]  # operator, line, and what makes the text


@dataclass(frozen=True)
class Mutant:
    """One change of one file: ``before`` and ``after`` are the changed lines, stripped."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    text: str

    @property
    def key(self) -> str:
        """Return what names it when lines move."""
        return f"{self.file}: {self.before} → {self.after}"


@dataclass(frozen=True)
class Site:
    """One operator at one line of a file, and the mutants that it can make there."""

    file: str
    line: int
    operator: str
    text: str
    makers: tuple[Maker, ...]

    def drawn(self, chance: random.Random) -> Mutant | None:
        """Make one mutant; None when none of them is a program, or differs."""
        makers = list(self.makers)
        chance.shuffle(makers)
        return next(filter(None, map(self._made, makers)), None)

    def _made(self, make: Maker) -> Mutant | None:
        mutated = make()
        compiles = _is_python if self.file.endswith(".py") else _is_lua
        if mutated is None or not compiles(mutated):
            return None
        old, new = self.text.split("\n"), mutated.split("\n")
        for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
            if before != after:
                changed = (before.strip(), after.strip())
                return Mutant(self.file, number, self.operator, *changed, mutated)
        return None


def sites(package: Path, file: str) -> list[Site]:
    """Return every place of a file of the package where an operator applies."""
    text = (package / file).read_text()
    found: dict[tuple[int, str], list[Maker]] = {}
    for operator, line, make in _lua(text) if file.endswith(".lua") else _python(text):
        found.setdefault((line, operator), []).append(make)
    return [Site(file, *at, text, tuple(makers)) for at, makers in sorted(found.items())]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _is_lua(text: str) -> bool:
    # The simulator's Lua: two versions of Lua in one process crash it.
    from lupa import lua51  # noqa: PLC0415 - not for mutants of Python

    try:
        lua51.LuaRuntime().compile(text)
    except lua51.LuaSyntaxError:
        return False
    return True


# --- Python ---------------------------------------------------------------------------------------


def _python(text: str) -> Iterator[Change]:
    yield from _by_tool(text)
    yield from _left_out(text)
    yield from _by_thousand(text)


def _by_tool(text: str) -> Iterator[Change]:
    """Apply each operator of cosmic-ray at each place where it applies."""
    from cosmic_ray import plugins  # noqa: PLC0415 - an extra: only this needs it
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415 - as above
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415 - as above

    spared = list(_spared(ast.parse(text)))
    tree = list(ast_nodes(get_ast(text)))
    for name in plugins.operator_names():
        family = _family(name.partition("/")[2])
        if family is None:
            continue
        operator = plugins.get_operator(name)()
        places = [place for node in tree for place in operator.mutation_positions(node)]
        for occurrence, (start, _end) in enumerate(places):
            if not any(first <= start < last for first, last in spared):
                yield family, start[0], partial(mutate_code, text, operator, occurrence)


def _family(name: str) -> str | None:
    if name in PYTHON_OPERATORS:
        return name
    if name.endswith(EASY):
        return None
    return next((family for family in PYTHON_FAMILIES if name.startswith(family)), None)


def _spared(tree: ast.AST) -> Iterator[tuple[Place, Place]]:
    """Return the stretches of a file in which a change alters nothing that a program does."""
    for node in ast.walk(tree):
        yield from _stretch(_for_types_only(node))


def _for_types_only(node: ast.AST) -> ast.AST | None:
    """Return the part of a node that only people and type checkers read."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.returns
        case ast.arg() | ast.AnnAssign():
            return node.annotation
        case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
            return node
        case ast.Assign() if _is_for_types(node):
            return node
        case ast.Call() if _names(node.func) in {"cast", "TypeVar"}:
            return node.args[0]
        case ast.Call() if ast.unparse(node.func).startswith("log."):
            return node
        case _:
            return None


def _is_for_types(node: ast.Assign) -> bool:
    """Return True for ``__slots__``, ``__all__`` and aliases: ``Keys = Sequence[bytes]``."""
    names = [each.id for each in node.targets if isinstance(each, ast.Name)]
    alias = isinstance(node.value, ast.Subscript | ast.BinOp) and names and names[0][0].isupper()
    return "__slots__" in names or "__all__" in names or bool(alias and not names[0].isupper())


def _names(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _stretch(node: ast.AST | None) -> Iterator[tuple[Place, Place]]:
    if isinstance(node, ast.expr | ast.stmt):
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        yield (node.lineno, node.col_offset), end


def _left_out(text: str) -> Iterator[Change]:
    """Leave out each statement that does something: a call, an assignment, a ``raise``."""
    spared = list(_spared(ast.parse(text)))
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if node.col_offset == 0:
            continue  # of a module: without it nothing can be imported
        start = (node.lineno, node.col_offset)
        if not any(first <= start < last for first, last in spared):
            yield "leave out a statement", node.lineno, partial(_replaced, text, node, "pass")


def _by_thousand(text: str) -> Iterator[Change]:
    """Take milliseconds for seconds: drop a factor of a thousand."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            right = node.right
            if isinstance(right, ast.Constant) and right.value in (1000, 1_000_000):
                yield (
                    "another unit",
                    node.lineno,
                    partial(_replaced, text, node, ast.unparse(node.left)),
                )


def _replaced(text: str, node: ast.stmt | ast.expr, by: str) -> str:
    """Put another text in the place of a node, and keep the number of lines."""
    lines = text.encode().split(b"\n")
    assert node.end_lineno is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    blank = [b""] * (last - first)
    return b"\n".join(
        [*lines[:first], head + by.encode() + tail, *blank, *lines[last + 1 :]]
    ).decode()


# --- Lua ------------------------------------------------------------------------------------------

Swap = tuple[str, str, Callable[[re.Match[str]], list[str]]]


def _to(*others: str) -> Callable[[re.Match[str]], list[str]]:
    return lambda _match: list(others)


def _shifted(match: re.Match[str]) -> list[str]:
    number = int(match[0])
    return [str(number + 1), str(number - 1)]


def _lines(match: re.Match[str]) -> list[str]:
    """Leave the lines empty: those behind keep their numbers."""
    return ["\n" * match[0].count("\n")]


LUA: tuple[Swap, ...] = (
    ("comparison", r"(?<![<>~=])<=", _to("<", "==", ">")),
    ("comparison", r"(?<![<>~=])>=", _to(">", "==", "<")),
    ("comparison", r"(?<![<>~=])<(?!=)", _to("<=", ">", "==")),
    ("comparison", r"(?<![<>~=-])>(?!=)", _to(">=", "<", "==")),
    ("comparison", r"==", _to("~=")),
    ("comparison", r"~=", _to("==")),
    ("logic", r"\band\b", _to("or")),
    ("logic", r"\bor\b", _to("and")),
    ("logic", r"\bnot ", _to("")),
    ("logic", r"\btrue\b", _to("false")),
    ("logic", r"\bfalse\b", _to("true")),
    ("arithmetic", r" \+ ", _to(" - ")),
    ("arithmetic", r" - ", _to(" + ")),
    ("arithmetic", r" \* 1000", _to("", " / 1000")),
    ("arithmetic", r" / 1000", _to("", " * 1000")),
    ("arithmetic", r"math\.max", _to("math.min")),
    ("arithmetic", r"math\.min", _to("math.max")),
    ("number", r"(?<![\w.'%\[])\d+(?![\w.'\]])", _shifted),
    ("argument", r"(?<=KEYS\[)\d+|(?<=ARGV\[)\d+|(?<=\+ )\d+(?=\])", _shifted),
    ("option", r", 'NX'|, 'XX'|, 'GT'|, 'PX', [\w.\[\]]+", _to("")),
    ("way out", r"\bbreak\b", _to("")),
)
# A statement on lines of its own that calls the server, or sets what is there already.
STATEMENTS: tuple[Swap, ...] = (
    (
        "leave out a statement",
        r"^[ \t]*(?:redis\.)?p?call\([^()]*(?:\([^()]*\)[^()]*)*\)[ \t]*$",
        _lines,
    ),
    (
        "leave out a statement",
        r"^[ \t]*(?!local)[\w.]+(?:, [\w.]+)* = [^=\n]*[^=\n,({]$",
        _lines,
    ),
)


# A comment, a string in one kind of quotes, and one in the other: the first that begins is it.
LUA_WORDS = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")


def _lua(text: str) -> Iterator[Change]:
    spared = [match.span() for match in LUA_WORDS.finditer(text)]
    for operator, pattern, others in (*LUA, *STATEMENTS):
        for match in re.finditer(pattern, text, re.MULTILINE):
            if not any(first <= match.start() < last for first, last in spared):
                line = text.count("\n", 0, match.start()) + 1
                for other in others(match):
                    yield operator, line, partial(_swapped, text, match.span(), other)


def _swapped(text: str, span: tuple[int, int], other: str) -> str:
    return text[: span[0]] + other + text[span[1] :]
