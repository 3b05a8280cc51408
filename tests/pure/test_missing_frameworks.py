"""Each integration says which extra is missing, not only which module."""

import builtins
import importlib
import sys

import pytest

FRAMEWORKS = {
    "fencelock.contrib.celery": ("celery", "needs Celery .*: install the extra 'celery'"),
    "fencelock.contrib.django": ("django", "needs Django .*: install the extra 'django'"),
    "fencelock.contrib.asgi.requests": ("starlette", "need Starlette: install the extra 'asgi'"),
}


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_what_is_missing_is_said(monkeypatch, module):
    framework, said = FRAMEWORKS[module]
    missing = ModuleNotFoundError(f"No module named {framework!r}")
    imports = builtins.__import__

    def refuses(name, *how):
        if name.partition(".")[0] == framework:
            raise missing
        return imports(name, *how)

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(builtins, "__import__", refuses)
    with pytest.raises(ImportError, match=said) as told:
        importlib.import_module(module)
    assert told.value.__cause__ is missing
