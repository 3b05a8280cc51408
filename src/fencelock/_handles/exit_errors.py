"""Which error leaves a ``with``: the body's own, or that of giving back after it."""

from __future__ import annotations

from fencelock._runtime.log import log
from fencelock.errors import FencelockError, LeaseLost


def raise_release_error(
    trouble: FencelockError, error: BaseException | None, doing: str, *, stopped: bool = False
) -> None:
    """Raise what giving back raised, unless the body raised itself: then only log it.

    ``stopped``: the body was ended because of the loss, so its own error says less.
    """
    if error is None:
        raise trouble
    if stopped:
        raise trouble from error
    if not isinstance(error, LeaseLost):  # told already
        log.warning("%s failed after the body raised: %s", doing, trouble)
