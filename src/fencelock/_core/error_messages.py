"""The words of errors for callers: the name, the server, and nothing twice.

The outermost flows pass their errors through here. The frames between them and the socket tell a
caller nothing, so they are cut off: the traceback for an unreachable server has only a few lines.
What is raised is not logged: the caller decides (I12). Hooks are called with it; see events.py.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps

from fencelock._core.types import NoReply
from fencelock._runtime.typed import TYPE_CHECKING, Any, ParamSpec, TypeVar
from fencelock.errors import (
    ClientClosed,
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerError,
)

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")

_OF_SERVERS = (ServerError, OutcomeUnknown, QuorumNotReached, ClientClosed)


def describe_error(port: Engine, error: FencelockError, name: str) -> None:
    """Complete an error for its caller, before the outermost flow raises it again."""
    error.with_traceback(None)
    if not isinstance(error, _OF_SERVERS):
        return
    error.name = error.name or name
    if not isinstance(error, QuorumNotReached):  # it names the nodes
        error.server = error.server or port.label
    cause = error.__cause__
    if isinstance(cause, NoReply):  # ours, and the message has its words
        error.__cause__ = None
    elif cause is not None:
        cause.with_traceback(None)


def describes_errors(
    flow: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a flow: complete its errors. Its first arguments are the port and the subject."""

    @wraps(flow)
    async def telling(*args: P.args, **options: P.kwargs) -> T:
        try:
            return await flow(*args, **options)
        except FencelockError as error:
            port, about, *_ = args
            about = getattr(about, "terms", about)  # keys have a name, or what has terms or keys
            name = getattr(getattr(about, "keys", about), "name", "")
            describe_error(port, error, name)  # type: ignore[arg-type]  # a flow's first is its port
            raise

    return telling
