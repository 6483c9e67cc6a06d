"""`python -m provisioner`, and the entry point of the command `provisioner`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from provisioner.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
