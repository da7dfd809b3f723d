"""Entry point of ``netstack`` and ``python -m integration``. It handles Ctrl-C before it imports the rest."""

import sys

from .base.stopping import STOP


def main() -> int:
    """Run the command line of this process and return its exit status."""
    STOP.install()
    from .cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
