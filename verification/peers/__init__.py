"""The same faults on fencelock and on its peers, each in its documented use. See README.md."""

import sys
from pathlib import Path

# The benchmarks, whose clients are used here, are scripts: they import each other by short names.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
