"""What the log says of a request that came to nothing."""

import pytest

from fencelock import OutcomeUnknown, ServerDenied, ServerReadOnly, ServerUnreachable
from fencelock._core.retry import log_undelivered
from fencelock.scripts import RELEASE


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ServerUnreachable("cut off"), "(release) could not reach the server in time: cut off"),
        (OutcomeUnknown("silent"), "(release) could not reach the server in time: silent"),
        (ServerDenied("no right", code="NOPERM"), "(release) was refused by the server: no right"),
        (ServerReadOnly("no disk", code="MISCONF"), "(release) was refused by the server: no disk"),
    ],
)
def test_a_refusal_is_told_apart_from_silence(caplog, error, said):
    log_undelivered(RELEASE, error, loud=True)
    assert caplog.messages == [f"a request in the background {said}"]
