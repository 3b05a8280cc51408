"""Exit statuses of the command line: scripts rely on the numbers, so each stands here as one."""

from __future__ import annotations

import pytest

from fencelock import errors
from fencelock.cli import exits

STATUSES = {
    errors.FencelockError: 70,
    errors.NotAcquired: 75,
    errors.AcquireTimeout: 75,
    errors.Deadlock: 75,
    errors.LeaseLost: 76,
    errors.NotHeld: 76,
    errors.OverReleased: 76,
    errors.Stale: 70,
    errors.NotRenewable: 70,
    errors.BarrierBroken: 70,
    errors.OutcomeUnknown: 69,
    errors.QuorumNotReached: 69,
    errors.ClientClosed: 70,
    errors.ServerError: 69,
    errors.ServerUnreachable: 69,
    errors.ServerDenied: 77,
    errors.NotAcknowledged: 69,
    errors.ServerReadOnly: 69,
    errors.ServerUnsuitable: 69,
    exits.UsageError: 64,
    ValueError: 64,
    LookupError: 70,
}


def every_error() -> list[type[BaseException]]:
    kinds = [
        each for name, each in vars(errors).items() if isinstance(each, type) and name[0] != "_"
    ]
    return [each for each in kinds if issubclass(each, errors.FencelockError)]


@pytest.mark.parametrize(
    "kind", [*dict.fromkeys([*STATUSES, *every_error()])], ids=lambda kind: kind.__name__
)
def test_each_error_has_its_status(kind: type[BaseException]) -> None:
    error = kind.__new__(kind)
    assert exits.status_of(error) == STATUSES[kind]
