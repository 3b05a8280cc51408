"""A near server may be silent for a tenth of a second: it had no processor, and is not ill."""

from __future__ import annotations

import pytest

from fencelock._core import engine, round_trips
from fencelock._core.lock import acknowledge, in_line
from fencelock._core.objects import multi, state_wait
from fencelock._io import link_asyncio
from fencelock._topology import master_monitor

PATIENT_SECONDS = 5.0
SENTINELS_SECONDS = 2.0
# The same for a program that a test starts: put it behind the program's import of fencelock.
PATIENT = f"""
from fencelock._core import engine, round_trips
from fencelock._core.lock import in_line
from fencelock._core.objects import multi, state_wait
in_line.LEAVING_SECONDS = multi.LEAVING_SECONDS = state_wait.LEAVING_SECONDS = {PATIENT_SECONDS}
engine.ANSWER_SECONDS_MIN = {PATIENT_SECONDS}
from fencelock._io import link_asyncio
round_trips.SILENT_SECONDS = link_asyncio.SILENT_SECONDS = {PATIENT_SECONDS}
"""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call with a short timeout wait for the answer of a busy machine's server.

    Else it says OutcomeUnknown, as it should, where the test is about "held by another". I13 itself
    is tested without this, in tests/faults, and where a test is marked ``prompt``.
    """
    for module in (in_line, multi, state_wait):
        monkeypatch.setattr(module, "LEAVING_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(engine, "ANSWER_SECONDS_MIN", PATIENT_SECONDS)
    monkeypatch.setattr(acknowledge, "LAST_SECONDS", PATIENT_SECONDS)
    for connection in (round_trips, link_asyncio):  # else another one is tried after 1 s
        monkeypatch.setattr(connection, "SILENT_SECONDS", PATIENT_SECONDS)
    # Else no Sentinel has answered, if none did within half a second.
    monkeypatch.setattr(master_monitor, "SENTINEL_SECONDS", SENTINELS_SECONDS)


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest) -> None:
    """Have every test of a folder patient, but for those that are about when a call ends (I13)."""
    if request.node.get_closest_marker("prompt") is None:
        request.getfixturevalue("patient")
