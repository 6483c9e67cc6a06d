"""cuDNN and NCCL floors, and the framework containers: facts → rows.

The floors of cuDNN stand by family in cudnn.yaml, in words; here they are ranges a CUDA major. Those of NCCL are what its wheels
hold. No row has a highest GPU: the libraries hold PTX for newer ones, so their lists cannot refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Container, Library
from provisioner.versions import Version
from tools.matrix.facts import Facts, capabilities, level, version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Family in cudnn.yaml, first release, first of the next family, CUDA major → lowest GPU, driver. Recall is left out.
_CUDNN: Sequence[tuple[str, str, str | None, int, str, str | None]] = (
    ("7.6.x", "7.6", "8.0", 10, "3.0", "410.48"),
    ("8.0.x", "8.0", "8.1", 10, "3.0", "418.39"),
    ("8.0.x", "8.0", "8.1", 11, "3.5", "450"),
    ("8.1.x", "8.1", "8.2", 10, "3.0", None),
    ("8.1.x", "8.1", "8.2", 11, "3.5", None),
    ("8.2.x", "8.2", "8.3", 10, "3.0", "440.33"),
    ("8.2.x", "8.2", "8.3", 11, "3.5", "450"),
    ("8.3.x", "8.3", "8.4", 10, "3.0", None),
    ("8.3.x", "8.3", "8.4", 11, "3.5", None),
    ("8.4.x", "8.4", "8.5", 10, "3.0", None),
    ("8.4.x", "8.4", "8.5", 11, "3.5", None),
    ("8.9.x", "8.9", "9.0", 11, "5.0", "450.80.02"),
    ("8.9.x", "8.9", "9.0", 12, "5.0", "525.60.13"),
    ("9.0 - 9.4", "9.0", "9.5", 11, "5.0", "450.80.02"),
    ("9.0 - 9.4", "9.0", "9.5", 12, "5.0", "525.60.13"),
    ("9.5 - 9.6", "9.5", "9.7", 11, "5.0", "450.80.02"),
    ("9.5 - 9.6", "9.5", "9.7", 12, "5.0", "525.60.13"),
    ("9.7 - 9.10", "9.7", "9.11", 11, "5.0", "450.80.02"),
    ("9.7 - 9.10", "9.7", "9.11", 12, "5.0", "525.60.13"),
    ("9.11", "9.11", "9.12", 12, "7.5", "525.60.13"),
    ("9.12 - 9.25", "9.12", "9.26", 12, "7.5", "525.60.13"),
    ("9.12 - 9.25", "9.12", "9.26", 13, "7.5", "580.65.06"),
    ("9.26 - 9.28", "9.26", None, 12, "7.5", None),
    ("9.26 - 9.28", "9.26", None, 13, "7.5", None),
)
#: Scanned wheels from which on a floor holds, and the next one from which on it does not; what lies between is not known.
_NCCL: Sequence[tuple[int, str, str | None]] = ((12, "2.21.5", "2.27.6"), (12, "2.28.3", None), (13, "2.27.7", None))


def libraries(facts: Facts) -> Iterator[Library]:
    """The floors; a floor that the facts do not bear stops here."""
    families = {row["cudnn"]: row for row in facts["cudnn"]["families"]}
    for name, first, before, cuda, lowest, driver in _CUDNN:
        row = families[name]
        if lowest not in str(row["cc_min"]) or (driver and driver not in str(row["min_driver"])):
            raise SystemExit(f"cudnn.yaml: family {name} does not say {lowest} and {driver}")
        yield Library(
            library="cudnn",
            first=Version(first),
            before=version(before),
            cuda_major=cuda,
            min_capability=Capability.parse(lowest),
            min_driver=version(driver),
            note=f"up to {row['cc_max']}" + (f"; {row['note']}" if "note" in row else ""),
            source=facts.sources("cudnn", row["source"]),
            verified=level(row["verified"]),
        )
    scanned = {(row["package"], row["version"]): row for row in facts["components"]["nccl"]["kernel_targets"]}
    for cuda, first, before in _NCCL:
        row = scanned[f"nvidia-nccl-cu{cuda}", first]
        targets = capabilities(name.removeprefix("sm_") for name in row["sm"])
        yield Library(
            library="nccl",
            first=Version(first),
            before=version(before),
            cuda_major=cuda,
            min_capability=targets[0],
            note=f"wheel of {first}: {' '.join(target.sm for target in targets)}",
            source=facts.sources("components", row["source"]),
            verified=level(row["verified"]),
        )


def containers(facts: Facts) -> Iterator[Container]:
    """The monthly releases of the containers, and the bases named nvYY.MM, which are the PyTorch container."""
    images = facts["images"]
    where = images["ngc_driver_note"]["note"]
    for family, rows, name in (
        ("nvidia", images["ngc_framework_containers"], "tag"),
        ("pytorch", images["ngc_pytorch_bases"], "pytorch_tag"),
    ):
        for row in rows:
            yield Container(
                family=family,
                release=row[name],
                cuda=Version(row["cuda"]),
                driver=version(row["driver_listed"]),
                note=f"{row['basis']}; {where}",
                source=facts.sources("images", row["source"]),
                verified=level(row["verified"]),
            )
