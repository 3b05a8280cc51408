"""Tests that are coroutine functions: they run in the world that they ask for."""

from __future__ import annotations

import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run such a test by its ``world``'s ``run``. A conftest imports this to have it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    given["world"].run(pyfuncitem.obj(**given))
    return True
