"""_runtime/records.py: its ``NamedTuple`` is ``typing.NamedTuple`` in all that programs see."""

from __future__ import annotations

import pickle
import typing

import pytest

from fencelock._runtime import records


class Ours(records.NamedTuple):
    """A record."""

    name: str
    places: list[int] = []  # noqa: RUF012 - a default is kept as it is
    fence: int = 7

    @property
    def shout(self) -> str:
        return self.name.upper()


class Pythons(typing.NamedTuple):
    """A record."""

    name: str
    places: list[int] = []  # noqa: RUF012 - as above
    fence: int = 7

    @property
    def shout(self) -> str:
        return self.name.upper()


@pytest.mark.parametrize(
    "look",
    [
        lambda kind: kind("a"),
        lambda kind: kind("a", [1], fence=2),
        lambda kind: kind("a")._replace(fence=3),
        lambda kind: kind("a").shout,
        lambda kind: kind("a")._asdict(),
        lambda kind: kind("a") == ("a", [], 7),
        lambda kind: repr(kind("a")).replace(kind.__name__, ""),
        lambda kind: (kind._fields, kind._field_defaults, kind.__doc__, kind.__module__),
        lambda kind: kind.__qualname__.replace(kind.__name__, ""),
        typing.get_type_hints,
        lambda kind: pickle.loads(pickle.dumps(kind("a"))),
        lambda kind: vars(kind)["__slots__"],
    ],
)
def test_a_record_is_as_pythons_own(look):
    assert look(Ours) == look(Pythons)


def test_a_record_cannot_be_changed_and_needs_its_fields():
    with pytest.raises(AttributeError):
        Ours("a").fence = 8
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Ours()
