"""``python -m clika_runtime``: the command line."""

from __future__ import annotations

import sys

from .modelverse.cli import main

if __name__ == "__main__":
    sys.exit(main())
