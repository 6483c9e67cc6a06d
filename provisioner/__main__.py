"""`python -m provisioner`, and the entry point of the command `provisioner`."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    # Loading makes many objects and no garbage: at the usual threshold the collector looks at them all again and again, and a
    # quick verb is over before that would pay.
    gc.set_threshold(50_000, 20, 20)
    from provisioner.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
