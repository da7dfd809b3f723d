"""Makes ``python -m integration`` the same as ``netstack``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
