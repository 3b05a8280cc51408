"""The screen of ``top``: a table of locks that refreshes itself, and keys.

Names and labels come from other users: they are shown as texts, never as markup. The server is
asked in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from fencelock.cli._top.detail import DetailScreen, RevokeScreen
from fencelock.cli.output import fitted, human, visible
from fencelock.cli.session import Session
from fencelock.cli.shown import LESS, row
from fencelock.errors import FencelockError
from fencelock.status import HolderStatus, LockStatus, WaiterStatus

_HEADER: Final = (
    *("NAME", "STATE", "WAITING", "LONGEST WAIT", "BLOCKED BY", "LABEL", "HELD FOR", "LEASE"),
)
_BESIDE: Final = 4  # columns of the terminal that the table's edges and its scrollbar take


# By the name of an order: what people call it, and what a lock is sorted by.
ORDERS: Final[dict[str, tuple[str, Callable[[LockStatus], tuple[float, ...]]]]] = {
    "waiters": ("most waiters", lambda lock: (-lock.waiting_units, -lock.longest_wait)),
    "wait": ("longest wait", lambda lock: (-lock.longest_wait, -lock.waiting_units)),
    "held": ("held longest", lambda lock: (-max((w.held_for for w in lock.holders), default=0.0),)),
    "name": ("name", lambda _: ()),
}


def chosen(locks: Iterable[LockStatus], order: str, text: str = "") -> list[LockStatus]:
    """Return the locks whose name, holder or waiter contains a text, in an order."""
    sought = text.casefold()

    def matches(lock: LockStatus) -> bool:
        people: list[HolderStatus | WaiterStatus] = [*lock.holders, *lock.listed_waiters]
        texts = [lock.name, *(f"{each.host}:{each.pid} {each.called}" for each in people)]
        return any(sought in each.casefold() for each in texts)

    _, key = ORDERS[order]
    return sorted(filter(matches, locks), key=lambda lock: (key(lock), lock.name))


class TopApp(App[None]):
    """Locks of a server, the most waited for first."""

    TITLE: str | None = "fencelock top"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    CSS: ClassVar[str] = """
    #summary { height: 1; padding: 0 1; background: $panel; }
    #filter { display: none; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("w", "order('waiters')", "Waiters"),
        ("l", "order('wait')", "Wait"),
        ("h", "order('held')", "Held"),
        ("n", "order('name')", "Name"),
        ("slash", "filter", "Filter"),
        ("enter", "look", "Look"),
        ("x", "revoke", "Revoke"),
        ("p", "pause", "Pause"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, session: Session, match: str, *, every: float) -> None:
        super().__init__()
        self._client = session.client
        self._operator = session.operator
        self.overview = session.operator.overview(match)
        self._every = every
        self._order = "waiters"
        self._text = ""
        self._paused = False
        self._busy = False
        self._trouble = ""
        self._locks: list[LockStatus] = []
        self._table: DataTable[Any] = DataTable(cursor_type="row", zebra_stripes=True)
        self._line = Static("", id="summary", markup=False)
        self._filter = Input(placeholder="part of a name, host or label", id="filter")

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical():
            yield self._line
            yield self._filter
            yield self._table
        yield Footer()

    async def on_mount(self) -> None:
        """Begin to refresh."""
        self._table.focus()
        self.set_interval(self._every, self.refresh_locks)
        await self.refresh_locks()

    async def refresh_locks(self) -> None:
        """Ask the server, unless paused or still asking; show a failure until one succeeds."""
        if self._paused or self._busy:
            return
        self._busy = True
        try:
            self._locks = await asyncio.to_thread(self._operator.refresh, self.overview)
            self._trouble = ""
        except FencelockError as error:
            self._trouble = str(error)
        finally:
            self._busy = False
        self._show()

    def _show(self) -> None:
        if not self._table.is_attached:  # it ended meanwhile
            return
        shown = chosen(self._locks, self._order, self._text)
        table, before = self._table, self.selected
        room = self.size.width - _BESIDE
        header, *rows = fitted([[*_HEADER], *map(_cells, shown)], room, LESS)
        table.clear(columns=True)
        table.add_columns(*header)
        for lock, cells in zip(shown, rows, strict=True):
            table.add_row(*map(Text, cells), key=lock.name)
        places = [place for place, lock in enumerate(shown) if lock.name == before]
        if places:
            table.move_cursor(row=places[0])
        self._line.update(Text(visible(self._summary(len(shown)))))

    def _summary(self, shown: int) -> str:
        waiting = sum(lock.waiting_units for lock in self._locks)
        parts = [
            self._operator.server,
            f"{shown} of {len(self._locks)} locks",
            f"{waiting}{'+' if any(lock.waiting_more for lock in self._locks) else ''} waiting",
            f"by {ORDERS[self._order][0]}",
        ]
        parts += [f"with {self._text!r}"] if self._text else []
        parts += ["paused"] if self._paused else []
        parts += [f"NOT REFRESHED: {self._trouble}"] if self._trouble else []
        return "   ".join(parts)

    @property
    def selected(self) -> str | None:
        """Return the name of the lock that the cursor is on."""
        table = self._table
        if not table.is_valid_row_index(table.cursor_row):
            return None
        name: str | None = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return name

    def on_resize(self) -> None:
        """Fit the table into the terminal's new width."""
        self._show()

    # -- keys -----------------------------------------------------------------------------------

    def action_order(self, order: str) -> None:
        """Sort in another order."""
        self._order = order
        self._show()

    def action_filter(self) -> None:
        """Ask for the text that names must have."""
        self._filter.add_class("shown")
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._text = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """Go back to the table; hide an empty filter."""
        self._filter.set_class(bool(self._text), "shown")
        self._table.focus()

    def on_data_table_row_selected(self) -> None:
        """Show the lock of the row: the table itself handles the Enter key."""
        self.action_look()

    def action_look(self) -> None:
        """Show one lock."""
        if self.selected is not None:
            self.push_screen(DetailScreen(self._client, self.selected, every=self._every))

    def action_revoke(self) -> None:
        """Ask for a reason, and take the lock away."""
        if self.selected is not None:
            self.push_screen(RevokeScreen(self._client, self.selected))

    async def action_pause(self) -> None:
        """Stop refreshing, or continue."""
        self._paused = not self._paused
        self._show()
        await self.refresh_locks()


def _cells(lock: LockStatus) -> list[str]:
    cells = row(lock)
    cells["BLOCKED BY"] = cells["HOLDER"]
    cells["LONGEST WAIT"] = human(lock.longest_wait) if lock.listed_waiters else "-"
    return [visible(cells[column]) for column in _HEADER]
