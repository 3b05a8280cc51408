"""``python -m fencelock``: the same as the ``fencelock`` command."""

from __future__ import annotations

import sys

from fencelock.cli import main

if __name__ == "__main__":
    sys.exit(main())
