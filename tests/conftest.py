"""What every test starts from."""

import os

import pytest

# A test that needs a server starts one of its own; no test ever finds the user's.
os.environ.pop("FENCELOCK_URL", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run what runs on every kind of server on the first N kinds only (all)"
    parser.addoption("--kinds", type=int, metavar="N", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kinds = config.getoption("kinds")
    if kinds is None:
        return
    from tests.servers import ServerBinary, binaries  # noqa: PLC0415  # only that option needs it

    spared = set(binaries()[kinds:])
    left_out = [item for item in items if spared.intersection(kinds_of(item, ServerBinary))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def kinds_of(item: pytest.Item, kind: type) -> list:
    call = getattr(item, "callspec", None)
    return [one for one in call.params.values() if isinstance(one, kind)] if call else []
