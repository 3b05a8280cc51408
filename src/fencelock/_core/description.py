"""What a holder or waiter says of itself, in JSON; see ``_handles.handle.describe``."""

from __future__ import annotations

from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from fencelock.status import HolderStatus


# What can be read of it: any client may write any fields.
Described: TypeAlias = dict[str, Any]


def described(info: bytes | str) -> Described:
    """Return it, as far as it can be read: another program may have written it."""
    import json  # noqa: PLC0415 - it loads for long, and few commands of the shell need it

    try:
        person = json.loads(info)
    except ValueError:
        return {}
    return person if isinstance(person, dict) else {}


def person_of(info: bytes | str) -> Described:
    """Return the same as the fields that a ``HolderStatus`` and a ``WaiterStatus`` have."""
    said = described(info)
    words = {key: str(said.get(key, "")) for key in ("host", "unit", "candidate", "trace")}
    numbers = {key: said.get(key) for key in ("pid", "others")}
    return {
        **words,
        **{key: given if isinstance(given, int) else 0 for key, given in numbers.items()},
        "label": str(said.get("label", words["candidate"])),
        "unit_id": str(said.get("id", "")),
    }


class HeldBy(NamedTuple):
    """The holder of a lock, as an answer to a waiter names it."""

    info: bytes
    fence: int
    held_for: float  # seconds

    @classmethod
    def of(cls, now_us: int, whose: bytes) -> HeldBy | None:
        """Return what an answer of the server says; None: no client of ours."""
        fence, _, info = whose.partition(b" ")
        if not fence:
            return None
        # A fence is the instant of its grant, unless the clock went back.
        return cls(info, int(fence), max(0, now_us - int(fence)) / 1e6)

    @property
    def status(self) -> HolderStatus:
        """Return it as people read it."""
        from fencelock.status import HolderStatus  # noqa: PLC0415 - few commands of the shell need it

        since, held_for = self.fence / 1e6, self.held_for
        who = person_of(self.info)
        return HolderStatus(**who, fence=self.fence, since=since, held_for=held_for)
