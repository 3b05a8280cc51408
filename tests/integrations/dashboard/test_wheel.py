"""The page is in the wheel, whole."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASSETS = "fencelock/dashboard/assets"


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_page(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        there = {name for name in packed.namelist() if name.startswith(ASSETS)}

    assert there == {f"{ASSETS}/{path.name}" for path in (ROOT / "src" / ASSETS).iterdir()}


def test_the_page_names_no_other_server():
    for path in (ROOT / "src" / ASSETS).iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert "http:" not in text, path
        assert "https:" not in text, path
        for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert sink not in text, path
