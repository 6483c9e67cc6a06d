"""`python -m tests.testbed [PART...]`: fetch and make what the parts need, into the cache; all parts when none is named."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from tests.testbed import engine, images, packages, registry, wheels
from tests.testbed.folders import cache
from tests.testbed.require import MissingPartError, allow_fetch

if TYPE_CHECKING:
    from collections.abc import Callable


def _docker() -> None:
    engine.programs()
    images.rootfs()


_PARTS: Final[dict[str, Callable[[], object]]] = {
    "docker": _docker,
    "packages": lambda: packages.unpacked("packages", "bookworm", ["hello"]),
    "registry": registry.find,
    "torch": wheels.torch_wheelhouse,
}


def main(asked: list[str]) -> int:
    """Fetch; 1 when one of the parts cannot be had here, 2 when there is no such part."""
    if unknown := sorted(set(asked) - set(_PARTS)):
        print(f"nothing to fetch for {', '.join(unknown)}; there are: {', '.join(_PARTS)}", file=sys.stderr)
        return 2
    missing = 0
    for part in asked or _PARTS:
        allow_fetch(part)
        started = time.monotonic()
        try:
            _PARTS[part]()
        except (MissingPartError, RuntimeError) as error:
            print(f"{part}: {error}", file=sys.stderr)
            missing = 1
        else:
            print(f"{part}: ready in {cache().name} after {time.monotonic() - started:.1f} s")
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
