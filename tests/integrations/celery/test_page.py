"""The page for users: its first lines run, and its other blocks fit them."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("celery")

from tests.integrations.celery.fleet import ROOT, SECONDS, until

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "how-to" / "celery.md"


def python_blocks():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_first_lines_of_the_page_run(server, tmp_path):
    first, *_ = python_blocks()
    tasks = first.replace("redis://localhost:6379/0", server.tcp_url)
    assert tasks.count(server.tcp_url) == 2
    (tmp_path / "tasks.py").write_text(tasks)
    env = {**os.environ, "C_FORCE_ROOT": "1"}
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency=1"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ask = "import tasks; print(tasks.import_account.delay(7).get(timeout=40))"
        asked = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        worker.terminate()
        until(lambda: worker.poll() is not None, "the worker's end")

    assert (asked.stdout, asked.stderr) == ("imported 7\n", "")


def test_the_other_blocks_fit_the_first(server, monkeypatch):
    first, *others = python_blocks()
    program = [first.replace("redis://localhost:6379/0", server.tcp_url)]
    # What asks a worker is compiled only.
    program += [block for block in others if ".delay(" not in block]
    names: dict = {"__name__": "tasks"}
    for block in program:
        exec(compile(block, str(PAGE), "exec"), names)

    assert names["app"].conf.fencelock["ttl"] == 60
