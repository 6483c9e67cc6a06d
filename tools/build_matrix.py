"""Write compat_matrix.yaml from collected facts: the same facts give the same bytes.

    python -m tools.build_matrix --facts FOLDER [--to compat_matrix.yaml]

FOLDER holds architectures, gpus, drivers, cuda, cudnn, components, images, pytorch, tensorflow, jax, companions and sizes .yaml;
what this project collected by itself stands in tools/facts. Every row keeps the ids of its sources; the catalogue is merged from
the files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provisioner.stack.matrix_text import format_matrix
from provisioner.stack.rows import MatrixFile, Source
from tools.matrix import hardware, jax, libraries, packages, places, pytorch, tensorflow
from tools.matrix.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Sequence


def build(folder: Path) -> MatrixFile:
    """The whole matrix from the facts in `folder`."""
    facts = Facts(folder)
    torch = pytorch.variants(facts)
    meta = facts["sizes"]["meta"]
    parts: dict[str, Any] = {
        "architectures": hardware.architectures(facts),
        "capabilities": hardware.compute_capabilities(facts),
        "gpus": hardware.gpus(facts),
        "drivers": hardware.drivers(facts),
        "cuda": hardware.cuda(facts),
        "cuda_releases": hardware.cuda_releases(facts),
        "forward_compat": hardware.forward_compat(facts),
        "indexes": pytorch.indexes(facts, torch),
        "frameworks": (*pytorch.frameworks(facts), tensorflow.framework(facts), jax.framework(facts)),
        "releases": (*pytorch.releases(facts), *tensorflow.releases(facts), *jax.releases(facts)),
        "variants": (*torch, *tensorflow.variants(facts), *jax.variants(facts)),
        "images": places.images(facts),
        "systems": places.systems(facts),
        "closures": places.closures(facts),
        "packages": tuple(packages.packages(facts)),
        "recipes": packages.recipes(facts),
        "libraries": tuple(libraries.libraries(facts)),
        "containers": tuple(libraries.containers(facts)),
    }
    measured = Source(id="sizes", document=f"First-hand: {' '.join(meta['method'].split())}", retrieved=str(meta["collected"]))
    return MatrixFile(
        schema=1, collected=str(facts["pytorch"]["meta"]["collected"]), sources=(*facts.catalogue(), measured), **parts
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; exit 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=Path, required=True, metavar="FOLDER", help="the collected facts")
    parser.add_argument("--to", type=Path, default=Path("compat_matrix.yaml"), help="the file to write")
    options = parser.parse_args(argv)
    options.to.write_text(format_matrix(build(options.facts)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
