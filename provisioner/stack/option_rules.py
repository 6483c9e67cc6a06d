"""The rules on `options`: the precision that is computed in, and what extensions are compiled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.gpus import cubin_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import Variant
    from provisioner.versions import Version

_NO = frozenset({"", "no", "false", "off", "0"})
#: How a precision is written in options.dtype → as the rows call it. What is not here runs everywhere.
PRECISIONS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float8": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "fp8": "fp8",
    "float4": "fp4",
    "fp4": "fp4",
    "nvfp4": "fp4",
    "tf32": "tf32",
}


def precision_there(asked: Asked) -> Iterator[Judgement]:
    """The GPUs compute in the precision that was asked."""
    wanted = asked.request.options.get("dtype", "").strip().lower()
    precision = PRECISIONS.get(wanted)
    if precision is None or asked.gpu is False:
        return
    for target in asked.targets:
        architecture = target.architecture
        if architecture is None or architecture.precisions is None:
            fact = f"whether {target} computes in {wanted} is not in the data"
            yield Note(rule="precision-there", finding="precision-not-known", fact=fact)
        elif precision not in architecture.precisions:
            has = f" (only in {', '.join(architecture.precisions)})" if architecture.precisions else ""
            fact = f"{target} does not compute in {wanted}{has}: frameworks emulate it slowly, or refuse to start"
            rows = [("architectures", architecture), *target.rows()]
            yield asked.refuse("precision-there", "precision-not-on-gpu", fact, rows)


def extensions_compile(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """Where extensions are compiled, the toolkit is of the build's CUDA major and knows the GPUs, and a pinned image has one."""
    request = asked.request
    compiles = request.options.get("compiles_extensions", "").strip().lower() not in _NO or request.purpose == "build"
    if not compiles or build.cuda is None:
        return
    if request.toolkit is not None:
        yield from _toolkit(asked, build, request.toolkit)
    elif asked.image is not None and asked.flavour not in {"devel", "cudnn-devel"} and request.purpose != "build":
        fact = f"extensions are compiled, and image {request.image} has no nvcc: its devel flavour has"
        yield asked.refuse("extensions-compile", "no-compiler-in-image", fact, [("images", asked.image)])


def _toolkit(asked: Asked, build: Variant, toolkit: Version) -> Iterator[Judgement]:
    if build.cuda is not None and toolkit.major != build.cuda.major:
        this = f"the {build.tag} build of {build.framework} {build.version} is CUDA {build.cuda}"
        fact = f"extensions are compiled with the nvcc of CUDA {toolkit}, and {this}: the majors must agree"
        yield asked.refuse("extensions-compile", "toolkit-of-another-cuda-major", fact, [("variants", build)])
        return
    row = asked.matrix.cuda_minor(toolkit)
    for target in asked.targets if row is not None else ():
        if row is not None and not any(cubin_runs(sm, target.capability) for sm in row.sm):
            rows = [("cuda", row), *target.rows()]
            fact = f"nvcc of CUDA {row.version} cannot compile for {target}"
            yield asked.refuse("extensions-compile", "toolkit-does-not-know-gpu", fact, rows)
