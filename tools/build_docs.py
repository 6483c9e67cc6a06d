"""Write docs/compatibility.md from the matrix: the same rows give the same bytes, and a test says when the page is stale.

    python -m tools.build_docs [--to docs/compatibility.md]

What the page says of builds, drivers and GPUs are rows of compat_matrix.yaml; the claims stand in tools/facts/claims.yaml.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from provisioner.decode import load
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provisioner.stack.gpus import Capability
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import ComputeCapability, DriverBranch, Framework, Gpu, Variant
    from provisioner.versions import Version

CLAIMS = Path(__file__).parent / "facts" / "claims.yaml"
PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
_NAMES = 4  # products that stand for a capability
_SEGMENTS = ("datacenter", "grace", "geforce", "workstation", "jetson", "laptop/embedded", "mining")
_PLATFORM: Final = "linux/amd64"


@value
class Claim:
    """A version claim that circulates. `rows` are ids of builds in the matrix that show what is true."""

    claim: str
    verdict: str
    truth: str
    verified: str
    sources: tuple[str, ...]
    rows: tuple[str, ...] = ()


@value
class Claims:
    """tools/facts/claims.yaml."""

    format: Literal[1]
    claims: tuple[Claim, ...]


def claims() -> tuple[Claim, ...]:
    """The claims; DataError when their file is wrong."""
    return load(CLAIMS, Claims).claims


def page(matrix: Matrix) -> str:
    """The whole page."""
    lines = [
        "# What runs on what",
        "",
        f"Written by `make docs` from `compat_matrix.yaml` (data of {matrix.collected}): do not edit, change a row instead.",
        "Every line has its documents: `provisioner matrix show ID`. A dash means: none, or not in the data.",
        "",
        "- [GPU generations](#gpu-generations): what drives them, and what still has code for them",
        *(f"- [{row.name}](#{row.id}-builds): release, CUDA, cuDNN, driver" for row in matrix.frameworks),
        "- [CUDA](#cuda) and [driver branches](#driver-branches)",
        "- [Claims that circulate](#claims-that-circulate)",
        "",
        *_generations(matrix),
        *(line for row in matrix.frameworks for line in _builds(matrix, row)),
        *_cuda(matrix),
        *_drivers(matrix),
        *_claims(),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(_cell(entry) for entry in row) + " |"
    yield ""


def _cell(entry: object) -> str:
    text = " ".join(str(entry).split()) if entry not in (None, "", ()) else "-"
    return text.replace("|", r"\|")


def _generations(matrix: Matrix) -> Iterator[str]:
    yield "## GPU generations"
    yield ""
    yield "Drivers are branches. CUDA: the toolkits that can target the GPU. The newest release is what `provisioner resolve`"
    yield f"answers on {_PLATFORM} where any driver will do: from the default index alone, then from all, where it differs."
    yield "In brackets: the build, and the oldest driver for it on this GPU. Builds that nobody was seen using do not count."
    yield ""
    head = ["capability", "generation", "such as", "drivers", "kernel modules", "CUDA"]
    head += [f"newest {row.name}" for row in matrix.frameworks]
    yield from _table(head, (_generation(matrix, row) for row in sorted(matrix.capabilities, key=lambda row: row.capability)))


def _generation(matrix: Matrix, row: ComputeCapability) -> list[object]:
    architecture = matrix.architecture(row.architecture)
    first = architecture.first_driver if architecture else None
    last = architecture.last_driver if architecture else None
    modules = {"unsupported": "proprietary", "supported": "either", "required": "open"}
    products = [gpu for gpu in matrix.gpus if gpu.capability == row.capability]
    jetson = bool(products) and all(gpu.segment == "jetson" for gpu in products)
    return [
        row.capability,
        architecture.name if architecture else row.architecture,
        ", ".join(_products(products)),
        "with JetPack" if jetson else _span(first, last),
        modules[architecture.open_modules] if architecture else None,
        _span(row.first_cuda, row.last_cuda),
        *("own index" if jetson else _newest(matrix, framework, row.capability) for framework in matrix.frameworks),
    ]


def _newest(matrix: Matrix, framework: Framework, capability: Capability) -> str:
    found: list[str] = []
    for index in (("pypi",), ()):
        request = Request(packages=(framework.id,), gpus=(capability.sm,), platform=_PLATFORM, index=index)
        stack = decide(request, matrix, remedies=False).stack
        if stack is not None and stack.variant != "cpu":
            found.append(f"{stack.version} ({stack.variant}, {stack.min_driver})")
    return "; ".join(dict.fromkeys(found))


def _span(first: object, last: object) -> str:
    return f"{first or '?'} to {last}" if last else (f"{first} on" if first else "")


def _products(rows: Sequence[Gpu]) -> list[str]:
    known = sorted(rows, key=lambda row: _SEGMENTS.index(row.segment) if row.segment in _SEGMENTS else len(_SEGMENTS))
    return [row.name.removeprefix("NVIDIA ") for row in known[:_NAMES]] + (["…"] if len(rows) > _NAMES else [])


def _builds(matrix: Matrix, framework: Framework) -> Iterator[str]:
    yield f'<a id="{framework.id}-builds"></a>'
    yield ""
    yield f"## {framework.name}: release, CUDA, cuDNN, driver"
    yield ""
    if framework.cuda_from == "wheels":
        yield "The build brings its CUDA libraries; the host needs the driver, and no toolkit."
    else:
        yield "The build finds its CUDA libraries in the image."
    yield "*from driver*: the oldest that runs it by minor version compatibility; *native*: the first made for that CUDA."
    yield f"Builds for {_PLATFORM}, newest first; **bold** is a default build. GPUs are the targets of its machine code, which"
    yield "runs on the same major with the same or a higher minor. PTX runs on its target and all newer ones, on a native driver."
    yield ""
    head = ["release", "build", "CUDA", "cuDNN", "NCCL", "from driver", "native", "GPUs", "Pythons", "glibc"]
    rows = [row for row in matrix.variants_of(framework.id) if row.platform == _PLATFORM and row.cuda is not None]
    rows = [row for row in rows if row.published != "no"]
    rows.sort(key=lambda row: (row.version, row.cuda.numbers if row.cuda else ()), reverse=True)
    yield from _table(head, (_build(matrix, row) for row in rows))


def _build(matrix: Matrix, row: Variant) -> list[object]:
    cuda = matrix.cuda_minor(row.cuda) if row.cuda else None
    tag = f"**{row.tag}**" if row.default else row.tag
    return [
        row.version,
        tag + (" (named only)" if row.published == "named" else ""),
        row.cuda,
        row.cudnn,
        row.nccl,
        _from_driver(cuda.min_driver if cuda else None, cuda.native_driver if cuda else None),
        cuda.native_driver if cuda else None,
        " ".join(map(str, row.sass or ())) + "".join(f" +PTX {target}" for target in row.ptx),
        _pythons(row.pythons),
        row.glibc,
    ]


def _from_driver(minor: Version | None, native: Version | None) -> Version | None:
    return minor or native


def _pythons(pythons: Sequence[str]) -> str:
    """`3.10 to 3.14, 3.14t`: free-threaded ones apart."""
    usual = [python for python in pythons if not python.endswith("t")]
    free = [python for python in pythons if python.endswith("t")]
    span = [f"{usual[0]} to {usual[-1]}" if len(usual) > 1 else usual[0]] if usual else []
    return ", ".join((*span, *free))


def _cuda(matrix: Matrix) -> Iterator[str]:
    yield "## CUDA"
    yield ""
    yield "*from driver*: machine code of this CUDA runs from it on, by minor version compatibility (none before CUDA 11)."
    yield "*native*: from it on everything runs."
    yield ""
    rows = ([row.version, row.min_driver, row.native_driver, " ".join(map(str, row.sm))] for row in reversed(matrix.cuda))
    yield from _table(["CUDA", "from driver", "native", "targets"], rows)


def _drivers(matrix: Matrix) -> Iterator[str]:
    yield "## Driver branches"
    yield ""
    head = ["branch", "type", "says CUDA", "first", "newest seen", "kernel modules", "GPU generations", "end of life"]
    yield from _table(head, (_driver(matrix, row) for row in reversed(matrix.drivers)))


def _driver(matrix: Matrix, row: DriverBranch) -> list[object]:
    names = [found.name for each in row.architectures if (found := matrix.architecture(each)) is not None]
    modules = {"only flavour": "open only", "available": "either", "none": "proprietary"}
    return [
        row.branch,
        row.type,
        row.max_cuda,
        row.first,
        row.latest,
        modules.get(row.open_modules, row.open_modules),
        ", ".join(names),
        row.eol,
    ]


def _claims() -> Iterator[str]:
    yield "## Claims that circulate"
    yield ""
    for claim in claims():
        yield f"### {claim.claim}"
        yield ""
        yield f"**{claim.verdict[:1].upper()}{claim.verdict[1:]}.** {claim.truth}."
        yield ""
        seen = [f"rows {', '.join(f'`{row}`' for row in claim.rows)}"] if claim.rows else []
        yield f"Verified by {claim.verified}: {'; '.join((*claim.sources, *seen))}."
        yield ""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page; exit 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(argv)
    options.to.write_text(page(shipped_matrix()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
