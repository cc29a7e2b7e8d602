"""``python -m theorykit``: the command line of :mod:`theorykit.cli`."""

from __future__ import annotations

import sys

from theorykit.cli import main

if __name__ == "__main__":
    sys.exit(main())
