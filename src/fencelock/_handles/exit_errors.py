"""Choose the exception that leaves a ``with`` block: the body's or the release's."""

from __future__ import annotations

from fencelock._runtime.log import log
from fencelock.errors import FencelockError, LeaseLost


def raise_release_error(
    trouble: FencelockError, error: BaseException | None, doing: str, *, stopped: bool = False
) -> None:
    """Raise the error of the release, unless the body raised too: then only log it.

    ``stopped``: the body was cancelled because of the loss, so its own error says less.
    """
    try:
        if error is None:
            raise trouble
        if stopped:
            raise trouble from error
        if not isinstance(error, LeaseLost):  # reported already
            log.warning("%s failed after the body raised: %s", doing, trouble)
    finally:
        del trouble
