"""One lock on a screen of its own, and the question for the reason of a revocation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from fencelock.blocking.client import Client
from fencelock.cli.output import human, visible
from fencelock.cli.shown import held_by, lease, person
from fencelock.errors import FencelockError, ServerError
from fencelock.status import HistoryEntry, HolderStatus, WaiterStatus

_WAITERS: Final = 1000
_ENTRIES: Final = 100


class DetailScreen(Screen[None]):
    """One lock: its holders, its waiters and its history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "app.pop_screen", "Back"),
        ("x", "revoke", "Revoke"),
        ("q", "app.quit", "Quit"),
    ]

    def __init__(self, client: Client, name: str, *, every: float) -> None:
        super().__init__()
        self._client = client
        self._lock = name
        self._every = every

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll():
            yield Static("", id="detail", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        """Begin to refresh."""
        self.set_interval(self._every, self.refresh_lock)
        await self.refresh_lock()

    async def refresh_lock(self) -> None:
        """Ask the server for the lock."""
        try:
            text = await asyncio.to_thread(lambda: "\n".join(lines(self._client, self._lock)))
        except FencelockError as error:
            text = f"{self._lock}\n\nNOT REFRESHED: {error}"
        shown = "\n".join(visible(line) for line in text.split("\n"))
        self.query_one("#detail", Static).update(Text(shown))

    def action_revoke(self) -> None:
        """Ask for a reason, and take the lock away."""
        self.app.push_screen(RevokeScreen(self._client, self._lock))


class RevokeScreen(ModalScreen[None]):
    """Asks for the reason of a revocation, which its holder sees. Without one nothing is done."""

    CSS: ClassVar[str] = """
    RevokeScreen { align: center middle; }
    #question { width: 76; height: auto; border: thick $error; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Leave it as it is")]

    def __init__(self, client: Client, name: str) -> None:
        super().__init__()
        self._client = client
        self._lock = name

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        question = Text(visible(f"Revoke {self._lock}? Its holder sees the reason:"))
        with Vertical(id="question"):
            yield Static(question, id="revoked")
            yield Input(placeholder="reason; Enter revokes, Escape does not", id="reason")
        yield Footer()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Revoke the lock, and say from whom."""
        event.stop()
        reason = event.value.strip()
        if not reason:
            return
        try:
            before = await asyncio.to_thread(self._client.revoke, self._lock, reason=reason)
        except FencelockError as error:
            self._say(f"{self._lock}: {error}", severe=True)
            return
        self._say(f"{self._lock} was {'free' if before is None else held_by(before)}", severe=False)
        self.app.pop_screen()

    def _say(self, text: str, *, severe: bool) -> None:
        severity = "error" if severe else "information"
        self.app.notify(visible(text), severity=severity, markup=False)


def lines(client: Client, name: str) -> Iterator[str]:
    """Ask the server for a lock, and yield what is known of it, a line each."""
    lock, no_history = client.status(name, waiters=_WAITERS), ""
    try:
        history = [*map(_entry, client.history(name, limit=_ENTRIES)[::-1])]  # the newest first
    except ServerError as error:  # without the permission the lock can still be shown
        history, no_history = [], str(error)
    yield f"{lock.name}: {held_by(lock)}"
    yield f"fence {lock.fence or 'unknown'}, {lock.waiting_words} waiting"
    held = [
        f"{_who(each)}, lease {lease(each.remaining)}, held for {human(each.held_for)}"
        for each in lock.holders
    ]
    yield from _listed("holders", held, lock.holding)
    line = [f"{each.place}. {_who(each)} for {human(each.waited)}" for each in lock.waiters]
    yield from _listed("waiters", line, lock.waiting)
    inside = [f"{_who(each)} for {human(each.waited)}" for each in lock.local_waiters]
    yield from _listed("waiters for others of their own client", inside, len(inside))
    yield from _listed("history", history, len(history))
    if no_history:
        yield f"history: {no_history}"


def _listed(title: str, rows: list[str], total: int) -> Iterator[str]:
    if rows:
        yield ""
        yield title
        yield from (f"  {row}" for row in rows)
        if total > len(rows):
            yield f"  and {total - len(rows)} more"


def _who(who: HolderStatus | WaiterStatus) -> str:
    return f"{person(who)} {who.doing}"


def _entry(entry: HistoryEntry) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(entry.at))
    process = f"{entry.host}:{entry.pid}"
    who = f"{process} ({entry.label})" if entry.label else process
    why = ", ".join(each for each in (entry.outcome, entry.reason, entry.detail) if each)
    return f"{when}  {entry.kind} {human(entry.seconds)} {who if entry.host else ''} {why}".rstrip()
