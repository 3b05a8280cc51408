"""How a defect is sown on purpose: at a decision, at an effect, at a statement, or in a script.

A defect names the place that it changes: a decision of ``decisions.py``, or the text of a script.
It fails when that place is not there any more, or it would prove nothing.

- ``Fault``: a function decides otherwise. A wrapper gets the real function and its arguments.
- ``Without``: a caller's call of a function, which must have an effect, has none.
- ``Statement``: one statement or expression of a function for another, for the rest: an order of
  two statements, say. It is found by its syntax, so line breaks and layout do not matter.
- ``Lua``: one text of a script for another; any white space matches any other.

A function stays the same object and gets other code, so whoever has imported it meets the defect.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha1
from types import CodeType, FunctionType
from typing import Any, Protocol

from fencelock import scripts
from tests.flows.decisions import DECISIONS

GONE = "the seed's place is gone"


class Defect(Protocol):
    """A change of the package that can be applied for a while."""

    @property
    def where(self) -> str:
        """Return the decision, the function or the script that it changes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the decisions that it names."""

    def applied(self) -> AbstractContextManager[None]:
        """Have the package run with the defect."""


def find(name: str) -> list[FunctionType]:
    """Return the functions of a decision; its name may also be a place itself."""
    places = name if ":" in name else DECISIONS[name]
    return [_at(each) for each in ([places] if isinstance(places, str) else places)]


def _at(place: str) -> FunctionType:
    """Return the function at a place, without what decorates it."""
    module, _, qualified = place.partition(":")
    found: Any = importlib.import_module(f"fencelock.{module}" if module[0] == "_" else module)
    for part in qualified.split("."):
        found = getattr(found, part)
    found = inspect.unwrap(found.fget if isinstance(found, property) else found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{place} is no function: {found!r}")
    return found


@contextlib.contextmanager
def running(function: FunctionType, code: CodeType) -> Iterator[None]:
    """Have a function run other code, whoever has imported it."""
    before, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = before


# -- decisions and effects -------------------------------------------------------------------------

CALLED = "what is called instead"


def _calls(*args: Any, **kwargs: Any) -> Any:
    call: Any = "what is called instead"
    return call(*args, **kwargs)


def calling(call: Callable[..., Any]) -> CodeType:
    """Return the code of a function that passes everything on to another."""
    code = _calls.__code__
    constants = tuple(call if each == CALLED else each for each in code.co_consts)
    return code.replace(co_consts=constants)


def copied(function: FunctionType) -> FunctionType:
    """Return a function of the same code, which stays what it is."""
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    copy = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@dataclass(frozen=True)
class Fault:
    """A decision that is taken by a wrapper, which gets the real function and its arguments.

    That of a coroutine may answer at once, or with something to await.
    """

    where: str
    wrapper: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.where,)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        with contextlib.ExitStack() as all_of_them:
            for function in find(self.where):
                all_of_them.enter_context(running(function, calling(self._instead_of(function))))
            yield

    def _instead_of(self, function: FunctionType) -> Callable[..., Any]:
        wrapper, real = self.wrapper, copied(function)

        def decides(*args: Any, **kwargs: Any) -> Any:
            return wrapper(real, *args, **kwargs)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            made = wrapper(real, *args, **kwargs)
            return await made if inspect.isawaitable(made) else made

        return awaited if inspect.iscoroutinefunction(real) else decides


def always(_real: Callable[..., Any], *_: object, **__: object) -> bool:
    """Decide yes."""
    return True


def never(_real: Callable[..., Any], *_: object, **__: object) -> bool:
    """Decide no."""
    return False


def nothing(_real: Callable[..., Any], *_: object, **__: object) -> None:
    """Do nothing."""


@contextlib.contextmanager
def changed(thing: Any, **fields: Any) -> Iterator[None]:
    """Give an object other fields for a moment."""
    before = {name: getattr(thing, name) for name in fields}
    for name, value in fields.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


def given(**fields: Any) -> Callable[..., Any]:
    """Return a wrapper: a method decides as if its object had other fields."""

    def wrapper(real: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        with changed(self, **fields):
            return real(self, *args, **kwargs)

    return wrapper


@dataclass(frozen=True)
class Without:
    """An effect that is left out where a named caller asks for it; it gets ``answer`` instead."""

    where: str
    by: str
    answer: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.where, self.by)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        (caller,) = (each.__code__ for each in find(self.by))

        def wrapper(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return self.answer if _called_by(caller) else real(*args, **kwargs)

        with Fault(self.where, wrapper).applied():
            yield


def _called_by(caller: CodeType) -> bool:
    """Return True if the function that was replaced was called there, or by a function inside."""
    frame = sys._getframe()
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    inside = code.co_qualname.startswith(f"{caller.co_qualname}.<locals>")
    return code is caller or (inside and code.co_filename == caller.co_filename)


@dataclass(frozen=True)
class Several:
    """Several defects, where one does what the others leave out."""

    defects: tuple[Defect, ...]

    @property
    def where(self) -> str:
        return self.defects[0].where

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for each in self.defects for name in each.names)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        with contextlib.ExitStack() as all_of_them:
            for each in self.defects:
                all_of_them.enter_context(each.applied())
            yield


def several(*defects: Defect) -> Several:
    return Several(defects)


# -- statements ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """Statements of a function for others, or an expression for another, wherever it has them.

    A text that ends with a colon is the beginning of a compound statement, whose body stays.
    """

    where: str
    old: str
    new: str

    @property
    def names(self) -> tuple[str, ...]:
        return () if ":" in self.where else (self.where,)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        (function,) = find(self.where)
        with running(function, self.code(function)):
            yield

    def code(self, function: FunctionType) -> CodeType:
        """Return the function's code with the defect; LookupError when its place is gone."""
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
        tree.decorator_list = []
        swap = _swap_of(self.old, self.new)
        swap.visit(tree)
        if not swap.found:
            raise LookupError(f"{GONE}: {self.old!r} in {self.where}")
        module = ast.fix_missing_locations(ast.Module([tree], []))
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        name = f"<seeded {function.__qualname__}>"
        exec(compile(module, name, "exec", flags), function.__globals__, made)
        code: CodeType = made[function.__name__].__code__
        return code


def _swap_of(old: str, new: str) -> _Swap:
    if old.endswith(":"):
        return _Headers(old, new)
    expressions = [_expression(text) for text in (old, new)]
    return _Expressions(old, new) if all(expressions) else _Statements(old, new)


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


class _Swap(ast.NodeTransformer):
    """Puts other nodes in the place of those that read like a text."""

    def __init__(self, old: str, new: str) -> None:
        self.old = textwrap.dedent(old).strip()
        self.new = textwrap.dedent(new).strip()
        self.found = False


class _Expressions(_Swap):
    def visit(self, node: ast.AST) -> ast.AST:
        old = _expression(self.old)
        assert old is not None
        if isinstance(node, ast.expr) and ast.unparse(node) == ast.unparse(old):
            self.found = True
            made = _expression(self.new)
            assert made is not None
            return made
        return self.generic_visit(node)


class _Headers(_Swap):
    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        branches = isinstance(node, ast.If | ast.While | ast.For)
        if branches and _header(node) == _header(_begun(self.old)):
            self.found = True
            made: Any = _begun(self.new)
            made.body, made.orelse = node.body, node.orelse
            return made
        return node


def _begun(text: str) -> ast.stmt:
    """Return a compound statement of this beginning."""
    return ast.parse(f"{text}\n    pass").body[0]


def _header(node: ast.stmt) -> str:
    """Return how a compound statement begins."""
    return ast.unparse(node).partition("\n")[0]


class _Statements(_Swap):
    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        old = [ast.unparse(each) for each in ast.parse(self.old).body]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._swapped(block, old) or [ast.Pass()] * bool(block))
        return node

    def _swapped(self, block: list[ast.stmt], old: list[str]) -> list[ast.stmt]:
        made, at, size = list[ast.stmt](), 0, len(old)
        while at < len(block):
            if [ast.unparse(each) for each in block[at : at + size]] == old:
                self.found = True
                made += ast.parse(self.new).body
                at += size
            else:
                made.append(block[at])
                at += 1
        return made


# -- scripts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lua:
    """A text of a script for another, in what the server gets: with all that it includes."""

    where: str
    old: str
    new: str

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    def source(self) -> bytes:
        return self.swapped(self.script().source.decode()).encode()

    def script(self) -> scripts.Script:
        return next(each for each in scripts.ALL if each.name == self.where)

    def swapped(self, text: str) -> str:
        pattern = r"\s+".join(map(re.escape, self.old.split()))
        made, found = re.subn(pattern, lambda _: self.new, text)
        if not found:
            raise LookupError(f"{GONE}: {self.old!r} in {self.where}")
        return made

    @property
    def digest(self) -> bytes:
        """Return the script's digest with the defect."""
        return sha1(self.source(), usedforsecurity=False).hexdigest().encode()

    def applied(self) -> AbstractContextManager[None]:
        """Have the process send the script with the defect: before its first client."""
        return changed(self.script(), source=self.source(), digest=self.digest)


def script(name: str, old: str, new: str) -> Lua:
    return Lua(name, old, new)
