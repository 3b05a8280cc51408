"""Pytest's plugin that sows one defect: ``-p verification.mutations.plugin --sown NAME``.

The defect is applied to the package in this process, once all tests are collected: it changes
functions and scripts in their place, so it does not matter who has imported them. Programs that a
test starts find it by the environment.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

CHILD = Path(__file__).parent / "child"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--sown", help="the name of the defect to sow")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Sow the defect; it stays until the tests have ended."""
    # Not before: the tests that this imports are to be imported by pytest.
    from verification.mutations.daily import all_defects  # noqa: PLC0415 - see above

    name = session.config.getoption("--sown")
    (sown,) = (each for each in all_defects() if each.name == name)
    os.environ["SOWN"] = name
    os.environ["PYTHONPATH"] = os.pathsep.join([str(CHILD), os.environ.get("PYTHONPATH", "")])
    defect = ExitStack()
    defect.enter_context(sown.change.applied())
    session.config.add_cleanup(defect.close)
