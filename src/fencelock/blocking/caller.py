"""What only this face has: a thread is never cancelled, and a client has one port.

As ``aio/caller.py``, name for name; all other files of this folder are generated from those there.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from fencelock._io.port_blocking import BlockingPort
from fencelock._io.select_blocking import port_for
from fencelock._io.threads import later, run_blocking
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from fencelock._core.look.history import Record

__all__ = ["later"]

T = TypeVar("T")

ASYNCHRONOUS: Final = False


def watch(held: object) -> None:
    """Do nothing: a loss cancels no thread."""


def was_stopped(held: object, error: BaseException | None) -> bool:
    """Return False: as above."""
    del held, error
    return False


def home_of(_hold: object, port: BlockingPort) -> BlockingPort:
    """Return the client's only port."""
    return port


def in_loop_of(_port: object, flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow: any thread may."""
    return run_blocking(flow)


def awaited(result: object) -> None:
    """Do nothing: a callback of a thread has ended when it returns."""


def result_of(result: Any, function: Callable[..., Any]) -> Any:
    """Return what a decorated function returned; TypeError for a coroutine."""
    from fencelock._handles.decorator import refuse_coroutine  # noqa: PLC0415 - inspect is slow

    return refuse_coroutine(result, function)


def opened(source: object, record: Record | None, **given: Any) -> tuple[Any, bool, str]:
    """Return the port, whether it is a quorum's, and the source's name for people."""
    port = port_for(source, **given)
    if record is not None:
        port.recorder = record(port)
    return port, bool(port.nodes), port.label
