"""Facts of a host for the tests of plans: a Debian 12 with a driver and Docker, and what a test changes of it."""

from __future__ import annotations

from typing import Any

from provisioner.facts import DriverFact, EngineFact, GpuFact, HostFacts, SystemFact
from provisioner.findings import Seen
from provisioner.values import replace

READY = HostFacts(
    host="gpu01",
    system=Seen(SystemFact(id="debian", version="12", name="Debian GNU/Linux 12 (bookworm)")),
    kernel=Seen("6.1.0-21-amd64"),
    machine=Seen("x86_64"),
    glibc=Seen("2.36"),
    boot_id=Seen("2f1d0a4e-0000-4000-8000-000000000000"),
    user=Seen("admin"),
    sudo=Seen(True),
    gpus=Seen((GpuFact(index=0, name="Tesla T4"),)),
    pci=Seen(("10de:1eb8",)),
    driver=Seen(DriverFact(version="580.95.05", flavour="open")),
    nouveau=Seen(False),
    secure_boot=Seen(False),
    packages=Seen({"docker-ce": "5:28.5.1-1~debian.12~bookworm"}),
    holds=Seen(()),
    engine=Seen(EngineFact(version="28.5.1")),
    toolkit=Seen(None),
    cdi=Seen(()),
    device_nodes=Seen(()),
    memory_mib=Seen(64000),
    disk_free_mib=Seen(100000),
    slurm=Seen(None),
    virtualization=Seen("none"),
)


def host(**changes: Any) -> HostFacts:  # noqa: ANN401 - fields of the facts
    return replace(READY, **changes)
