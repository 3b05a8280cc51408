"""Sows the defect of a test into the programs that the test starts: see plugin.py.

Python imports a module of this name as it starts.
"""

import os

from verification.mutations.sown import SOWN

APPLIED = [each.change.applied() for each in SOWN if each.name == os.environ.get("SOWN")]
for defect in APPLIED:
    defect.__enter__()
