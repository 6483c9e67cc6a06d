"""The parsers of FACTS on what the programs print, and what each answers when it cannot look.

Sources of the texts: os-release of the named systems; /proc/driver/nvidia/version, nvidia-ctk and Docker as public notes and
bug reports show them; mokutil(1); dpkg-query and df as they answer on Debian 12.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.commands import Completed
from provisioner.facts import FACTS, DriverFact, EngineFact, HostFacts, SystemFact
from provisioner.findings import Seen

_OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-B17-02-5)  Tue Sep 23"
)
_CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 UTC 2025"
_CLOSED_FACT = DriverFact(version="580.105.08", flavour="proprietary")
_MODULE = "@ proc\n@ module\n%s\n@ license\n%s\n@ smi\n"
_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n"
_QUERY = "==============NVSMI LOG==============\n\nDriver Version                            : 580.95.05\nCUDA Version : 13.0\n"
_NO_MODULE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is "
    "installed and running."
)
_DOCKER = '@ docker\n{"version":"28.5.1","runtimes":{"runc":{"path":"runc"},"nvidia":{}},"default":"runc","security":%s}\n'
_CDI_LIST = "nvidia.com/gpu=0\nnvidia.com/gpu=GPU-ef035dbe-50a2-c079-a6c5-df8d7886d96b\nnvidia.com/gpu=all\n"
_DF = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"


def _read(fact: str, stdout: str = "", stderr: str = "", code: int = 0) -> Seen[Any]:
    return FACTS[fact].parse(Completed(exit=code, stdout=stdout, stderr=stderr))


def test_every_field_of_the_facts_has_its_row() -> None:
    assert [field.name for field in dataclasses.fields(HostFacts) if field.name not in {"host", "steps"}] == list(FACTS)
    assert len(FACTS) >= 20


@pytest.mark.parametrize(
    ("fact", "stdout", "found"),
    [
        (
            "system",
            'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
            SystemFact(id="ubuntu", version="24.04", name="Ubuntu 24.04.3 LTS", like=("debian",)),
        ),
        (
            "system",
            'NAME="Rocky Linux"\nVERSION_ID="9.6"\nID="rocky"\nID_LIKE="rhel centos fedora"\n',
            SystemFact(id="rocky", version="9.6", name="Rocky Linux", like=("rhel", "centos", "fedora")),
        ),
        (
            "system",
            'PRETTY_NAME="Debian GNU/Linux forky/sid"\nNAME="Debian GNU/Linux"\nVERSION_CODENAME=forky\nID=debian\n',
            SystemFact(id="debian", version="", name="Debian GNU/Linux forky/sid"),
        ),
        ("kernel", "6.8.0-88-generic\n", "6.8.0-88-generic"),
        ("glibc", "glibc 2.39\n", "2.39"),
        ("glibc", "ldd (Ubuntu GLIBC 2.35-0ubuntu3.11) 2.35\nCopyright (C) 2022 Free Software Foundation, Inc.\n", "2.35"),
        ("sudo", "root\n", True),
        ("sudo", "sudo\n", True),
        ("pci", "10de:2b85\n10de:2b85\n", ("10de:2b85", "10de:2b85")),
        ("driver", f"@ proc\n{_OPEN}\n@ smi\n{_QUERY}", DriverFact(version="580.95.05", flavour="open", cuda="13.0")),
        ("driver", f"@ proc\n{_CLOSED}\n@ smi\nsh: nvidia-smi: not found\n", _CLOSED_FACT),
        (
            "driver",
            f"@ proc\n{_CLOSED}\n@ smi\n{_MISMATCH}",
            _CLOSED_FACT,
        ),
        ("driver", _MODULE % ("535.183.01", "NVIDIA"), DriverFact(version="535.183.01", flavour="proprietary")),
        ("driver", _MODULE % ("575.57.08", "Dual MIT/GPL"), DriverFact(version="575.57.08", flavour="open")),
        ("driver", f"@ proc\n@ module\n@ license\n@ smi\n{_QUERY}", DriverFact(version="580.95.05", cuda="13.0")),  # WSL
        ("driver", f"@ proc\n@ module\n@ license\n@ smi\n{_NO_MODULE}\n", None),
        ("nouveau", "yes\n", True),
        ("nouveau", "no\n", False),
        ("secure_boot", "SecureBoot enabled\n", True),
        ("secure_boot", "SecureBoot disabled\nPlatform is in Setup Mode\n", False),
        ("secure_boot", "legacy\n", False),
        ("secure_boot", "   1\n", True),
        ("secure_boot", "   0\n", False),
        ("holds", "nvidia-driver-535\nnvidia-dkms-535\n", ("nvidia-driver-535", "nvidia-dkms-535")),
        ("holds", "", ()),
        ("engine", "none\n", None),
        (
            "engine",
            _DOCKER % '["name=seccomp,profile=builtin"]' + '@ cdi\n["/etc/cdi"]\n@ buildx\ngithub.com/docker/buildx v0.29.1 a3\n',
            EngineFact(version="28.5.1", buildx="0.29.1", runtimes=("nvidia", "runc"), cdi_folders=("/etc/cdi",)),
        ),
        (
            "engine",
            _DOCKER % '["name=seccomp,profile=builtin","name=rootless"]' + "@ cdi\n@ buildx\n",
            EngineFact(version="28.5.1", runtimes=("nvidia", "runc"), rootless=True),
        ),
        (
            "engine",
            _DOCKER % "null" + "@ cdi\n\n@ buildx\ngithub.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3\n",
            EngineFact(version="28.5.1", buildx="0.13.1+ds1", runtimes=("nvidia", "runc")),
        ),
        ("engine", "@ podman\n5.4.2\n1000\n", EngineFact(name="podman", version="5.4.2", rootless=True, default_runtime="runc")),
        ("toolkit", "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80a9b9d0db00d9b1d73c0128c8962c55f4d\n", "1.17.8"),
        ("toolkit", "none\n", None),
        ("cdi", _CDI_LIST, ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-ef035dbe-50a2-c079-a6c5-df8d7886d96b", "nvidia.com/gpu=all")),
        ("cdi", '@ specs\nkind nvidia.com/gpu\nname "0"\nname all\n', ("nvidia.com/gpu=0", "nvidia.com/gpu=all")),
        ("cdi", "@ specs\n", ()),
        ("device_nodes", "/dev/nvidia0\n/dev/nvidiactl\n", ("/dev/nvidia0", "/dev/nvidiactl")),
        ("memory_mib", "MemTotal:       131815064 kB\n", 128725),
        ("disk_free_mib", _DF + "/dev/nvme0n1p2   959786032 21300423 697953072      24% /\n", 681594),
        ("disk_free_mib", _DF + "/dev/mapper/vg-a very long\n                 959786032 21300423 697953072      24% /\n", 681594),
        ("slurm", "slurm 24.11.3\n", "24.11.3"),
        ("slurm", "slurm-wlm 22.05.8\n", "22.05.8"),
        ("slurm", "none\n", None),
        ("virtualization", "kvm\n", "kvm"),
    ],
)  # fmt: skip
def test_what_was_seen(fact: str, stdout: str, found: object) -> None:
    assert _read(fact, stdout) == Seen(found)


@pytest.mark.parametrize(
    ("fact", "stdout", "stderr", "code", "why"),
    [
        ("system", "", "cat: /usr/lib/os-release: No such file or directory", 1, "No such file"),
        ("system", "NAME=x\n", "", 0, "no ID"),
        ("kernel", "", "", 0, "ended with 0"),
        ("glibc", "", "sh: 1: ldd: not found", 127, "ldd: not found"),
        ("pci", "", "sysfs is not to be seen", 1, "sysfs is not to be seen"),
        ("nouveau", "", "sysfs is not to be seen", 1, "sysfs"),
        ("secure_boot", "", "od: /sys/firmware/efi/efivars/SecureBoot-8be4: Permission denied", 1, "Permission denied"),
        ("packages", "none\n", "", 0, "neither dpkg nor rpm"),
        ("packages", "", "dpkg-query: error: failed to open package info file", 2, "failed to open"),
        ("holds", "none\n", "", 0, "neither dpkg nor rpm"),
        (
            "engine",
            "@ docker\n",
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            1,
            "docker does not answer: permission denied",
        ),
        (
            "engine",
            '@ docker\n{"version":""}\n',
            "Cannot connect to the Docker daemon at unix:///run/x.sock.",
            1,
            "Cannot connect",
        ),
        ("engine", "@ docker\n<html>\n", "", 0, "docker does not answer"),
        ("toolkit", "", "nvidia-ctk: error while loading shared libraries: libnvidia-container.so.1", 127, "shared libraries"),
        ("cdi", "", "permission denied", 1, "permission denied"),
        ("memory_mib", "", "grep: /proc/meminfo: No such file or directory", 2, "No such file"),
        ("disk_free_mib", _DF, "", 0, "Filesystem"),
        ("slurm", "", "slurmd: fatal: no config file", 1, "fatal"),
        ("virtualization", "", "no systemd-detect-virt, and this processor does not tell", 1, "does not tell"),
        ("driver", "", "cut", 124, "cut"),
    ],
)
def test_what_could_not_be_seen_says_why(fact: str, stdout: str, stderr: str, code: int, why: str) -> None:
    seen = _read(fact, stdout, stderr, code)
    assert not seen.known
    assert why in (seen.why_not or "")


def test_absence_is_an_answer_and_not_a_failure() -> None:
    assert _read("glibc", "", "musl libc (x86_64)\nVersion 1.2.5\nDynamic Program Loader\n", 1) == Seen(None)
    assert _read("sudo", "", "sudo: a password is required", 1) == Seen(False)
    assert _read("sudo", "", "sh: 1: sudo: not found", 127) == Seen(False)


def test_packages_are_those_that_are_installed() -> None:
    text = "installed nvidia-utils-580 580.95.05-0ubuntu0.24.04.2\nconfig-files nvidia-driver-535 535\nnot-installed docker.io \n"
    missing = "dpkg-query: no packages found matching podman*\n"
    assert _read("packages", text, missing, 1) == Seen({"nvidia-utils-580": "580.95.05-0ubuntu0.24.04.2"})
    assert _read("packages", "", missing, 1) == Seen({})


@pytest.mark.parametrize(
    ("smi", "loaded", "bus", "why"),
    [
        ("there is no nvidia-smi", "", "", None),
        (_NO_MODULE, "", "", None),
        ("No devices were found", "", "", None),
        ("there is no nvidia-smi", "", "10de:2b85", "there is no nvidia-smi; the PCI bus shows 1 NVIDIA device (10de:2b85)"),
        (_NO_MODULE, "", "10de:20b0\n10de:20b0", "the PCI bus shows 2 NVIDIA devices (10de:20b0)"),
        ("No devices were found", "/proc/driver/nvidia", "10de:2b85", "No devices were found; the PCI bus shows 1"),
        ("Failed to initialize NVML: Driver/library version mismatch", "/proc/driver/nvidia", "", "/proc/driver/nvidia is there"),
        ("there is no nvidia-smi", "/dev/dxg", "", "/dev/dxg is there"),
    ],
)
def test_no_gpu_is_an_answer_only_where_nothing_hints_at_one(smi: str, loaded: str, bus: str, why: str | None) -> None:
    seen = _read("gpus", f"@ smi\n{smi}\n@ loaded\n{loaded}\n@ bus\n{bus}\n")
    if why is None:
        assert seen == Seen(())
    else:
        assert not seen.known
        assert why in (seen.why_not or "")


def test_gpus_where_sysfs_is_hidden() -> None:
    assert _read("gpus", "@ smi\nthere is no nvidia-smi\n@ loaded\n@ bus\n", "sysfs is not to be seen", 1).known is False


@given(st.sampled_from(sorted(FACTS)), st.text(max_size=200), st.text(max_size=50), st.integers(0, 255))
def test_no_answer_makes_a_parser_fall(fact: str, stdout: str, stderr: str, code: int) -> None:
    assert isinstance(_read(fact, stdout, stderr, code), Seen)


@pytest.mark.parametrize("number", ["9" * 5000, "²", "٣"])
def test_no_number_makes_a_parser_fall(number: str) -> None:
    for fact, text in (
        ("memory_mib", f"MemTotal: {number} kB"),
        ("disk_free_mib", f"{_DF}/dev/sda1 1 1 {number} 1% /"),
        ("gpus", f"@ smi\nindex, name, memory.total [MiB]\n{number}, NVIDIA L4, {number} MiB\n@ loaded\n@ bus\n"),
        ("gpus", f"@ smi\n| {number} NVIDIA L4 On | 00000000:01:00.0 | |\n| | {number}MiB / {number}MiB | |\n"),
    ):
        assert isinstance(_read(fact, text), Seen)
