"""The two faces are one: the same names, parameters, defaults, results and words.

What is awaited carries ``async``, classes carry ``Async``, and a docstring may say something else
only where it speaks of what the other face does not have: see ``OWN``.
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from types import FunctionType

import pytest

import fencelock

NAMES = (
    *("Client", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "RWLock", "ReadLock"),
    *("WriteLock", "Lease", "MultiLease", "MultiLock", "Once", "Event", "Latch", "Barrier"),
    "Election",
)
PAIRS = [(getattr(fencelock, name), getattr(fencelock, f"Async{name}")) for name in NAMES]
SPECIAL = ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__repr__", "__del__")

# These answer from what this process knows. All other methods send something, and are awaited.
LOCAL = {
    "Client": {
        *("__init__", "__repr__", "barrier", "bounded_semaphore", "election", "event"),
        *("latch", "lock", "locked", "multi", "once", "rlock", "rwlock", "semaphore"),
    },
    "Election": {
        *("__init__", "__repr__", "candidate", "changes", "is_leader", "lease", "name"),
    },
    "Event": {"__init__", "__repr__", "name"},
    "Latch": {"__init__", "__repr__", "name"},
    "Barrier": {"__init__", "__repr__", "name", "parties"},
    "Lock": {"__del__", "__init__", "__repr__", "lease", "name"},
    "RLock": {"__del__", "__init__", "__repr__", "lease", "name"},
    "MultiLease": {
        *("__init__", "__repr__", "check", "deadline", "expires_at", "fences"),
        *("lost", "names", "remaining", "ttl"),
    },
    "MultiLock": {"__del__", "__init__", "__repr__", "lease", "names"},
    "Once": {"__init__", "__repr__", "name"},
    "Semaphore": {"__del__", "__init__", "__repr__", "lease", "limit", "name", "permits"},
    "RWLock": {"__init__", "__repr__", "name", "read", "write"},
    "ReadLock": {"__del__", "__init__", "__repr__", "lease", "name"},
    "WriteLock": {"__del__", "__init__", "__repr__", "lease", "name"},
    "BoundedSemaphore": {"__del__", "__init__", "__repr__", "lease", "limit", "name", "permits"},
    "Lease": {
        *("__init__", "__repr__", "check", "deadline", "expires_at", "fence"),
        *("holder", "lost", "name", "remaining", "ttl", "unchanged"),
    },
}

# What only one of the faces has. A sentence without a twin must speak of one of these.
OWN = re.compile(
    r"asyncio|threading|\bloops?\b|\bawait|async with|coroutine|[Cc]ancel"  # tasks have
    r"|Ctrl-C|background thread|context manager|blocking client"  # threads have
)
# Their parameters are how the faces make them, not how users do.
MADE_BY_US = set(NAMES) - {"Client"}
# A thread cannot be cancelled, and a callback of a thread is not awaited.
MAKES = ("election", "lock", "rlock", "locked", "multi", "once")
OTHER_TYPES = {
    *(f"Client.{made}.on_lost" for made in MAKES),
    *(f"Client.{made}.on_lost" for made in ("rwlock", "semaphore", "bounded_semaphore")),
    "Once.__call__.return",
}


def members(face: type) -> dict[str, object]:
    names = [name for name in dir(face) if not name.startswith("_") or name in SPECIAL]
    return {twin(name): inspect.getattr_static(face, name) for name in names}


def twin(name: str) -> str:
    """Return what a name is called in the face for threads."""
    special = {"__aenter__": "__enter__", "__aexit__": "__exit__", "aclose": "close"}
    return special.get(name, re.sub(r"\bAsync(?=[A-Z])", "", name))


def both(kind: type) -> Iterator[tuple[str, str, object, object]]:
    """Yield every member of that kind that the two faces share."""
    for sync, aio in PAIRS:
        theirs = members(aio)
        for name, ours in members(sync).items():
            if isinstance(ours, kind) and not (name == "__init__" and sync.__name__ in MADE_BY_US):
                yield sync.__name__, name, ours, theirs[name]


def each(kind: type, *, differs: Callable[[object, object], bool]) -> pytest.MarkDecorator:
    """Run a test on the members that the faces have of their own: what is one cannot differ."""
    found = [one for one in both(kind) if differs(*one[2:])]
    ids = [f"{face}.{name}" for face, name, *_ in found]
    return pytest.mark.parametrize(("face", "name", "sync", "aio"), found, ids=ids)


def written_twice(ours: object, theirs: object) -> bool:
    """Return False for what both faces have from a base: its code and words are the same."""
    return bare(ours).__code__ is not bare(theirs).__code__


def typed_twice(ours: object, theirs: object) -> bool:
    """Return False for what a base has; a client has copies of it, with types of its own."""
    return bare(ours) is not bare(theirs)


def bare(member: object) -> FunctionType:
    return inspect.unwrap(member.fget if isinstance(member, property) else member)


FACES = pytest.mark.parametrize(("sync", "aio"), PAIRS, ids=[one.__name__ for one, _ in PAIRS])


# --- names and signatures -------------------------------------------------------------------------


@FACES
def test_the_faces_have_the_same_names(sync, aio):
    assert sorted(members(sync)) == sorted(members(aio))


@FACES
def test_members_are_of_the_same_kind(sync, aio):
    kinds = {name: type(member) for name, member in members(sync).items()}

    assert kinds == {name: type(member) for name, member in members(aio).items()}


@each(FunctionType, differs=written_twice)
def test_parameters_and_defaults_are_the_same(face, name, sync, aio):
    ours, theirs = inspect.signature(sync).parameters, inspect.signature(aio).parameters

    assert shape(ours) == shape(theirs)


def overloads(function):
    """Return the overloads, which are known by the name that the function was defined with."""
    defined = inspect.unwrap(function)
    code, closure = defined.__code__, defined.__closure__
    return typing.get_overloads(FunctionType(code, defined.__globals__, closure=closure))


OVERLOADED = {
    bare(member).__code__: member
    for face in (one for pair in PAIRS for one in pair)
    for member in members(face).values()
    if isinstance(member, FunctionType) and overloads(member)
}.values()


@pytest.mark.parametrize("function", OVERLOADED, ids=lambda one: one.__qualname__)
def test_each_overload_has_the_kinds_and_defaults_of_its_function(function):
    parameters = inspect.signature(function).parameters
    for form in overloads(function):
        for one in inspect.signature(form).parameters.values():
            if one.name in parameters:
                same = parameters[one.name]
                assert one.default in {inspect.Parameter.empty, ..., same.default}, one
                assert one.kind is same.kind, one


@each(FunctionType, differs=written_twice)
def test_the_faces_have_the_same_overloads(face, name, sync, aio):
    assert len(overloads(sync)) == len(overloads(aio))


def test_the_overloads_are_found():
    assert len(overloads(fencelock.Client.once)) > 1
    assert len(overloads(fencelock.AsyncClient.locked)) > 1


def shape(parameters) -> list[tuple[str, object, object]]:
    return [(one.name, one.kind, one.default) for one in parameters.values()]


@each(FunctionType, differs=typed_twice)
def test_types_are_the_same(face, name, sync, aio):
    ours, theirs = types(sync), types(aio)
    for other in OTHER_TYPES:
        if other.startswith(f"{face}.{name}."):
            parameter = other.rpartition(".")[2]
            assert ours.pop(parameter) != theirs.pop(parameter)

    assert ours == theirs


def types(function) -> dict[str, str]:
    return {name: twin(str(note)) for name, note in function.__annotations__.items()}


@each(property, differs=written_twice)
def test_properties_have_the_same_type(face, name, sync, aio):
    """But where the face for threads asks the server: then the other's is awaited."""
    ours, theirs = types(sync.fget), types(aio.fget)
    awaited = {at: re.sub(r"^Awaitable\[(.*)\]$", r"\1", note) for at, note in theirs.items()}

    assert ours == awaited


@each(FunctionType, differs=written_twice)
def test_what_sends_is_awaited_and_nothing_else_is(face, name, sync, aio):
    assert not inspect.iscoroutinefunction(sync)
    assert inspect.iscoroutinefunction(inspect.unwrap(aio)) == (name not in LOCAL[face])


# --- words ----------------------------------------------------------------------------------------


@FACES
def test_the_classes_say_the_same(sync, aio):
    assert strangers(sync, aio) == []


@each(FunctionType, differs=written_twice)
def test_the_methods_say_the_same(face, name, sync, aio):
    assert strangers(sync, aio) == []


@each(property, differs=written_twice)
def test_the_properties_say_the_same(face, name, sync, aio):
    assert strangers(sync, aio) == []


def strangers(sync: object, aio: object) -> list[str]:
    """Return the sentences without a twin that have no excuse."""
    ours, theirs = sentences(sync), sentences(aio)
    plain_ours, plain_theirs = [[plain(one) for one in each] for each in (ours, theirs)]
    found = SequenceMatcher(a=plain_ours, b=plain_theirs, autojunk=False).get_opcodes()
    differing = [ours[i1:i2] + theirs[j1:j2] for what, i1, i2, j1, j2 in found if what != "equal"]
    return [one for chunk in differing if not OWN.search(" ".join(chunk)) for one in chunk]


def sentences(told: object) -> list[str]:
    text = " ".join(inspect.cleandoc(told.__doc__ or "").split())
    return re.split(r"(?<=[.:;]) ", text)


def plain(sentence: str) -> str:
    """Return a sentence as the face for threads would say it."""
    said = twin(sentence).replace("aclose", "close").replace("``async with``", "``with``")
    return re.sub(r"\btask(s?)\b", r"thread\1", said).replace(".__enter__", "")


@pytest.mark.parametrize(
    ("sync", "aio", "same"),
    [
        ("Release. Ends soon.", "Release. Ends soon.", True),
        ("Any thread may.", "Any task may.", True),
        ("Made by ``Client.lock``.", "Made by ``AsyncClient.lock``.", True),
        ("Release.", "Release. Cancelled, it is carried out.", True),
        ("Release.", "Release. Ends soon.", False),
        ("Release. Ends soon.", "Release. Ends at once.", False),
        ("Ends by Ctrl-C. Ends soon.", "Ends by cancellation. Ends at once.", True),
        ("Ends by Ctrl-C. Then. Ends soon.", "Ends by cancellation. Then. Ends at once.", False),
    ],
)
def test_the_comparison_sees_what_differs(sync, aio, same):
    one, other = (type("Told", (), {"__doc__": text}) for text in (sync, aio))

    assert (strangers(one, other) == []) is same
