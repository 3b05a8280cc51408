"""The words of errors for callers: the name, the server, and nothing twice.

The outermost flows pass their errors through here. The frames between them and the socket tell a
caller nothing, so they are cut off: the traceback for an unreachable server has only a few lines.
What is raised is not logged: the caller decides (I12). Hooks are called with it; see events.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
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
    flow: Callable[P, Awaitable[T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a flow: complete its errors.

    Its first arguments are the port and the subject; of a method, what has a port.
    """

    @wraps(flow)
    async def telling(*args: P.args, **options: P.kwargs) -> T:
        try:
            return await flow(*args, **options)
        except FencelockError as error:
            owner, *_ = args
            port = getattr(owner, "port", owner)
            given = args if port is not owner else args[1:]
            describe_error(port, error, next(filter(None, map(_name_of, given)), ""))  # type: ignore[arg-type]  # see above
            raise

    return telling


def _name_of(about: object) -> str:
    """Return the name of a subject: keys have one, or what has terms or keys."""
    about = getattr(about, "terms", about)
    found: str = getattr(getattr(about, "keys", about), "name", "")
    return found
