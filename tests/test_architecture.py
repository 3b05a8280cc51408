"""Where things are: who may import whom, no circles, and one place for each class name.

``PACKAGES`` is the table of ARCHITECTURE.md, which a test compares with it. It holds for imports
for types only, too. Those may go in a circle: two classes that meet may name each other's type.
"""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "fencelock"

FACE = "_handles _io/* _core/* errors options lease status _runtime"
# A folder or module of the package → what it may import; ``x/*`` is a folder with all below it.
# Modules of one entry may import each other: that there is no circle is another test.
PACKAGES = {
    "errors": "status _runtime",
    "options": "_runtime",
    "scripts": "_runtime",
    "_runtime": "",
    "lease": "_runtime",
    "status": "_runtime",
    "_core/*": "errors options lease scripts status _runtime",
    "_topology/*": "_core/* errors scripts _runtime",
    "_io/*": "_topology/* _core/* embedded errors options scripts _runtime",
    "embedded": "_io/* errors _runtime",
    "_handles": "_core/* errors options status _runtime",
    "blocking": FACE,
    "aio": FACE,
    "instrumentation": "_core/* _io/* errors scripts _runtime",
    "_operator": "blocking _handles _io/* _core/* errors options status _runtime",
    "closing": "_io/* _runtime options",
    "threads": "",
    "fencelock": "closing threads blocking aio embedded _handles _core/* errors options status"
    " _runtime",
    "testing": "fencelock embedded instrumentation _io/* _core/* _runtime errors options",
    "dashboard": "fencelock blocking _io/* _core/* errors options status",
    "cli/*": "fencelock blocking _operator dashboard embedded _io/* _topology/* _core/* errors"
    " options lease status _runtime",
    "__main__": "cli/*",
    "fences": "errors options",
    "compat": "blocking aio _io/* _core/* errors options _runtime",
    "contrib/*": "fencelock blocking aio compat _operator _handles threads errors options lease"
    " _runtime",
}
# What is against the table, and why it stands. It may only get shorter.
EXCEPTIONS = {
    ("_topology.cluster", "_io.wire"): "packs a script call: the format of the wire is not decided",
}
# What people ask. The engine works without it, and a program that only locks loads none of it.
LOOK = "_core.look"
# Class names that stand more than once, and why.
TWICE = {
    "AsyncLock": "ours, and the stand-in for redis-py's lock in compat",
    "Lock": "ours, the stand-in for redis-py's in compat, and the model of Django's admin page",
    "BarrierBroken": "an error of fencelock, and of threading or asyncio in each face",
    "Latch": "the public one, and what the rules of the topologies wait for",
    "Meta": "what Django reads of a model",
    "_Exchange": "one for threads and one for asyncio, in files that name the face",
}


def module_of(path: Path) -> str:
    """Return a module's name under the package; the package itself is ``fencelock``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "fencelock"


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


INSTRUMENTS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "verification").rglob("*.py"))
}


def imports(module: str, text: str, modules=MODULES) -> Iterator[str]:
    """Yield those of the modules that one imports, wherever it does, for types only too."""
    for node in import_statements(text):
        if isinstance(node, ast.Import):
            yield from known((alias.name for alias in node.names), modules)
        else:
            base = absolute(module, node)
            for alias in node.names:
                yield from known([f"{base}.{alias.name}"], modules) or known([base], modules)


@functools.cache
def import_statements(text: str) -> list[ast.Import | ast.ImportFrom]:
    kinds = ast.Import | ast.ImportFrom
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    is_package = MODULES.get(module, Path("x.py")).name == "__init__.py"
    parts = ["fencelock", *module.split(".")] if module != "fencelock" else ["fencelock"]
    parts = parts if is_package else parts[:-1]
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def known(names, modules) -> list[str]:
    short = (name.removeprefix("fencelock.") for name in names)
    return [name for name in short if name in modules]


def package_of(module: str) -> str | None:
    """Return the entry of the table that a module belongs to, if there is one."""
    top = module.partition(".")[0]
    path = MODULES.get(module, PACKAGE / f"{module.replace('.', '/')}.py")
    folder = path.relative_to(PACKAGE).parts[:-1]
    if f"{top}/*" in PACKAGES:
        return f"{top}/*"
    return top if top in PACKAGES and len(folder) <= 1 else None


def wrong_imports(module: str, text: str) -> Iterator[str]:
    """Complain of imports that the table does not allow."""
    package = package_of(module)
    for name in imports(module, text):
        other = package_of(name)
        if other not in {package, *PACKAGES[package].split()} and (module, name) not in EXCEPTIONS:
            yield f"{module} ({package}) may not import {name} ({other})"


def looks(module: str, text: str) -> bool:
    return any(name.startswith(LOOK) for name in imports(module, text))


def at_start(text: str) -> str:
    """Return a module without what it does when a function is called."""

    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return ast.Pass()

        visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    return ast.unparse(Emptied().visit(ast.parse(text)))


def at_run_time(text: str) -> str:
    """Return a module without what only type checkers read."""
    if "TYPE_CHECKING" not in text:
        return text

    class Untyped(ast.NodeTransformer):
        def visit_If(self, node):
            only_types = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
            return [ast.Pass(), *node.orelse] if only_types else self.generic_visit(node)

    return ast.unparse(Untyped().visit(ast.parse(text)))


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or by way of others."""
    left = dict(graph)
    while free := [each for each, used in left.items() if not used & left.keys()]:
        for each in free:
            del left[each]
    reached = {each: closure(each, left) for each in left}
    groups = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in left}
    return sorted(list(group) for group in groups if group)


def closure(module: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        for each in graph[waiting.pop()] & graph.keys() - found:
            found.add(each)
            waiting.append(each)
    return found


# --- the package ----------------------------------------------------------------------------------


def test_every_module_has_its_room():
    assert [module for module in MODULES if package_of(module) is None] == []


def test_imports_point_the_way_of_the_table():
    wrong = [
        each for name, path in MODULES.items() for each in wrong_imports(name, path.read_text())
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("modules", [MODULES, INSTRUMENTS], ids=["src", "verification"])
def test_no_import_goes_in_a_circle(modules):
    texts = {name: at_run_time(path.read_text()) for name, path in modules.items()}
    graph = {name: {*imports(name, text, modules)} for name, text in texts.items()}
    assert any(graph.values())
    assert circles(graph) == []


def test_the_engine_loads_what_people_ask_for_only_when_they_ask():
    core = {
        name: at_run_time(path.read_text())
        for name, path in MODULES.items()
        if name.startswith("_core")
    }
    outside = {name: text for name, text in core.items() if not name.startswith(LOOK)}
    assert {name for name, text in outside.items() if looks(name, text)} == {
        "_core.objects.once",  # which process runs it
        "_core.pushes",  # a client answers what others ask it
    }
    assert [name for name, text in outside.items() if looks(name, at_start(text))] == []


def test_a_module_that_looks_is_seen():
    text = "from fencelock._core.look import show\nclass A:\n    x = 1"
    inside = "class A:\n    def f():\n        from fencelock._core.look import show"
    assert looks("_core.lock.acquire", at_start(text))
    assert looks("_core.lock.acquire", inside)
    assert not looks("_core.lock.acquire", at_start(inside))


def test_every_exception_is_needed():
    found = {
        (name, other) for name in MODULES for other in imports(name, MODULES[name].read_text())
    }
    assert EXCEPTIONS.keys() - found == set()


def test_a_class_name_stands_once():
    form = re.compile(r"^ *class (\w+)", re.MULTILINE)
    names = Counter(name for path in MODULES.values() for name in form.findall(path.read_text()))
    assert {name for name, times in names.items() if times > 1} == TWICE.keys()


def test_the_page_shows_the_table():
    page = (
        (ROOT / "ARCHITECTURE.md").read_text().partition("\n## Packages\n")[2].partition("\n## ")[0]
    )
    shown = {}
    for row in re.findall(r"^\| (`.*?) \|.*\| (.*?) \|$", page, re.MULTILINE):
        packages, others = ({*re.findall(r"`([^`]+)`", cell)} for cell in row)
        shown |= dict.fromkeys(packages, others)
    assert shown == {package: {*others.split()} for package, others in PACKAGES.items()}


# --- the checks themselves ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("_core.lock.acquire", "from ... import _io"),
        ("_core.lock.acquire", "from ..._io.sources.url import parse"),
        ("_core.lock.acquire", "import fencelock.aio"),
        ("_core.keys", "def f():\n    from fencelock.cli import exits"),
        ("_core", "from ..cli import exits"),
        ("_io.port_asyncio", "from fencelock import aio"),
        ("_topology.sentinel", "from fencelock._io.wire import pack"),
        ("lease", "from ._core.lock import acquire"),
        ("lease", "if TYPE_CHECKING:\n    from fencelock._core.engine import Engine"),
    ],
)
def test_a_wrong_import_is_seen(module, text):
    assert list(wrong_imports(module, text))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (
            "_core.lock.acquire",
            "from ...lease import BaseLease\nfrom . import hold\nimport logging",
        ),
        ("_io.port_asyncio", "import asyncio\nfrom .._core.lock import acquire"),
        ("lease", "from ._runtime.clock import now"),
    ],
)
def test_a_right_import_is_let_pass(module, text):
    assert list(wrong_imports(module, text)) == []


def test_a_circle_is_seen():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e2"}, "e2": {"e"}}
    assert circles(graph) == [["b", "c"], ["e", "e2"]]


def test_an_import_for_types_only_is_no_circle():
    text = "if TYPE_CHECKING:\n    from .engine import Engine\nelse:\n    from . import seat"
    assert {*imports("_core.wire", text)} == {"_core.engine", "_core.seat"}
    assert {*imports("_core.wire", at_run_time(text))} == {"_core.seat"}
