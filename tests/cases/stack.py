"""The cases and vectors that ask for a stack: each becomes a Request, and its answer is compared with what was expected.

`a/` holds cases rewritten from public reports, `vectors/` single questions whose verdict the facts give; both as they came.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from provisioner.stack.changes import apply_changes
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpus import Capability
from provisioner.stack.reading import read
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent
#: A cause as the cases call it → the finding of ours that says it. A cause that is not here is the finding's own id.
CAUSES: Mapping[str, str] = {
    "arch-not-in-wheel": "arch-not-in-build",
    "no-such-local-version-on-arch": "no-such-build",
}
#: The vectors name no cause; this is the finding that each `why` describes.
VECTOR_CAUSES: Mapping[str, str] = {
    "v100-cuda13": "arch-dropped-by-cuda-major",
    "v100-cudnn911": "library-min-arch",
    "gtx1080-open": "wrong-kernel-module-flavour",
    "h100-580-compat129": "cuda-compat-older-than-driver",
    "rtx3090-550-image129": "image-requires-newer-driver",
    "rtx5090-560": "gpu-newer-than-driver",
    "rtx5090-cuda126": "arch-not-in-build",
    "gb10-x86-image": "gpu-on-other-platform",
    "hgx-h100-fm-mismatch": "fabric-manager-version-mismatch",
    "l40s-mig": "no-mig",
    "tag-nosuffix": "no-such-image",
    "tag-1220-cudnn": "no-such-image",
    "maxwell-nccl228": "library-min-arch",
    "620-proprietary": "wrong-kernel-module-flavour",
}
_VERDICTS: Mapping[str, str] = {"fail": "conflict", "refused-at-start": "conflict"}
_PLATFORMS: Mapping[str, str] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
_VERSIONS = frozenset({"cuda", "cudnn", "fabric_manager", "toolkit", "glibc"})


@value
class Case:
    """One case: what is asked, what must agree with the rows, and what is expected. `cause` None: nothing is flagged."""

    id: str
    kind: str
    request: Request
    verdict: str
    cause: str | None
    capability: str | None = None
    driver_cuda: str | None = None


@functools.cache
def cases() -> tuple[Case, ...]:
    """Every case of kind a and every vector, in the order of their files."""
    found = []
    for path in sorted((HERE / "a").glob("*.yaml")):
        found += [_of_report(entry) for entry in _load(path)["cases"]]
    for path in sorted((HERE / "vectors").glob("*.yaml")):
        found += [_of_vector(entry) for entry in _load(path)["vectors"]]
    return tuple(found)


def _load(path: Path) -> Any:  # noqa: ANN401 - plain YAML
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _of_report(entry: Mapping[str, Any]) -> Case:
    asked, expected = entry["input"]["stack"], entry["expected"]
    verdict = _VERDICTS.get(expected["verdict"], expected["verdict"])
    cause = CAUSES.get(expected["cause"], expected["cause"])
    return Case(
        id=entry["id"],
        kind=entry["kind"],
        request=request_of(asked),
        verdict=verdict,
        cause=None if verdict == "ok" else cause,
        capability=asked.get("compute_capability"),
        driver_cuda=asked.get("driver_cuda"),
    )


def _of_vector(entry: Mapping[str, Any]) -> Case:
    verdict = _VERDICTS.get(entry["expect"], entry["expect"])
    cause = None if verdict == "ok" else VECTOR_CAUSES[entry["id"]]
    return Case(id=entry["id"], kind="vectors", request=request_of(entry["given"]), verdict=verdict, cause=cause)


def request_of(asked: Mapping[str, Any]) -> Request:
    """The fields of a case as a Request; KeyError for a field without a meaning here."""
    fields: dict[str, Any] = {}
    options: dict[str, str] = {}
    for name, content in asked.items():
        if name == "options":
            options |= {key: str(entry).lower() if isinstance(entry, bool) else str(entry) for key, entry in content.items()}
        elif name == "mig":
            options["mig"] = content
        elif name in _FIELDS:
            fields |= _FIELDS[name](content)
        elif name in _VERSIONS:
            fields[name] = Version(str(content))
        elif name not in _AGREE:
            Request.__dataclass_fields__[name]  # a KeyError for what no request has
            fields[name] = content
    return Request(options=options, **fields)


def _index(text: str) -> dict[str, Any]:
    """`cu124`, `pypi`, or `pypi + extra-index cu124` in this order."""
    words = [word.strip().removeprefix("extra-index").strip() for word in text.split("+")]
    ids = tuple(word if word == "pypi" else f"pytorch/{word}" for word in words)
    return {"index": ids if len(ids) > 1 else ids[0]}


def _image(text: str) -> dict[str, Any]:
    """A bare tag is one of the CUDA images."""
    return {"image": f"nvidia/cuda:{text}" if re.match(r"\d", text) else text}


#: A field of a case that has another name or form in a request.
_FIELDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "gpu": lambda content: {"gpus": (content,)},
    "arch": lambda content: {"platform": _PLATFORMS[content]},
    "image_platform": lambda content: {"platform": content},
    "wheel_index": _index,
    "host_gcc": lambda content: {"compiler": f"gcc-{content}"},
    "nccl": lambda content: {"nccl": Version(content.split()[0])},
    "code": lambda content: {"code": "sass" if content == "SASS only" else "sass+ptx"},
    "image": _image,
    "packages": lambda content: {"packages": tuple(content)},
}
#: What the rows must agree with.
_AGREE = frozenset({"compute_capability", "driver_cuda"})


def faults(case: Case) -> list[str]:
    """What is wrong with our answer to `case`; nothing when it is right."""
    matrix = shipped_matrix()
    asked = read(case.request, matrix)
    found = []
    if case.capability is not None and {target.capability for target in asked.targets} != {Capability.parse(case.capability)}:
        found.append(f"the rows give {[str(target) for target in asked.targets]}, and the case {case.capability}")
    branch = asked.machines[0].driver.branch
    if case.driver_cuda is not None and (branch is None or branch.max_cuda != Version(case.driver_cuda)):
        found.append(f"the rows give CUDA {branch.max_cuda if branch else '?'} to the driver, and the case {case.driver_cuda}")
    decision = decide(case.request, matrix)
    first = decision.refusals[0] if decision.refusals else None
    if decision.verdict != case.verdict:
        found.append(f"{decision.verdict} instead of {case.verdict}: {first.fact if first else 'nothing refused'}")
    elif first is not None and first.finding != case.cause:
        found.append(f"{first.finding} comes first, and not {case.cause}: {first.fact}")
    if case.verdict == "conflict" and decision.verdict == "conflict":
        if not decision.remedies:
            found.append("no remedy")
        elif not decision.remedies[0].changes:
            found.append(f"the first remedy changes nothing: {decision.remedies[0].text}")
        else:
            again = decide(apply_changes(case.request, decision.remedies[0].changes), matrix, remedies=False)
            if again.verdict != "ok":
                found.append(f"the first remedy does not resolve: {decision.remedies[0].text}")
    return found
